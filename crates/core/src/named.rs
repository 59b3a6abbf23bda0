//! Enums whose values have names.

/// Defines an enum whose values have names: in files and plans (serde, JSON schema), in messages (`name`), and read back (`from_name`). One
/// list of the values, so that none can be missing from `ALL`.
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* $vis:vis enum $type:ident { $($(#[$attribute:meta])* $value:ident = $name:literal),+ $(,)? }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        $(#[$meta])*
        $vis enum $type {
            $($(#[$attribute])* #[serde(rename = $name)] $value),+
        }

        impl $type {
            /// All values, in the order of their declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Returns the name in files, plans and messages.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }

            /// Returns the value of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }
    };
}
