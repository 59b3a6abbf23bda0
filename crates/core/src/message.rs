//! Chat messages, as workloads make them and requests carry them.

use crate::named_enum;
use serde::{Deserialize, Serialize};

named_enum! {
    /// Author of a chat message.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Role {
        /// Instructions for the whole conversation.
        System = "system",
        /// The person or program that asks.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// The output of a tool call.
        Tool = "tool",
    }
}

/// One chat message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Text of the message.
    pub content: String,
}

impl Message {
    /// Creates a message.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }

    /// Creates a user message.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a system message.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_in_the_format_of_the_api() {
        for role in Role::ALL {
            let json = format!("{{\"role\":\"{}\",\"content\":\"a \\\"b\\\"\"}}", role.name());
            let message: Message = serde_json::from_str(&json).unwrap();
            assert_eq!(message, Message::new(role, "a \"b\""));
            assert_eq!(serde_json::to_string(&message).unwrap(), json);
        }
        assert!(serde_json::from_str::<Message>("{\"role\":\"bot\",\"content\":\"\"}").is_err());
    }
}
