//! A message of a chat: who says what. What a workload makes and a request carries.

use serde::{Deserialize, Serialize};

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// What holds for the whole conversation.
    System,
    /// Who asks.
    User,
    /// Who answers: the model.
    Assistant,
    /// What a tool returned.
    Tool,
}

impl Role {
    /// Every one of them.
    pub const ALL: [Self; 4] = [Self::System, Self::User, Self::Assistant, Self::Tool];

    /// The name that the API knows it by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One message: a role and a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message of this role.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }

    /// What the user says.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// What holds for the whole conversation.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_and_writes_as_the_api_has_it() {
        for role in Role::ALL {
            let json = format!("{{\"role\":\"{}\",\"content\":\"a \\\"b\\\"\"}}", role.name());
            let message: Message = serde_json::from_str(&json).unwrap();
            assert_eq!(message, Message::new(role, "a \"b\""));
            assert_eq!(serde_json::to_string(&message).unwrap(), json);
        }
        assert!(serde_json::from_str::<Message>("{\"role\":\"bot\",\"content\":\"\"}").is_err());
    }
}
