//! Enums whose values have a name in plans, files and on the command line.

/// Declares an enum with a name for each value, `Serialize`, `Deserialize` and `JsonSchema` by these names, `ALL`, and `name()`. One list of
/// the values, so that none can be missing from `ALL`.
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* $vis:vis enum $type:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        $vis enum $type {
            $($(#[$doc])* #[serde(rename = $name)] $value,)+
        }

        impl $type {
            /// All values, in the order of their declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Returns the name in plans, in files and on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }
    };
}
