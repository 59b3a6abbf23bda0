//! Deserialization that checks the value as a whole.

/// Implements `Serialize` and `Deserialize` for a type that derives both with `#[serde(remote = "Self")]`, so that a value is deserialized
/// only if its `check(&self) -> Result<(), String>` passes. The type is its own schema: no second struct mirrors its fields.
#[macro_export]
macro_rules! checked {
    ($type:ty) => {
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> ::std::result::Result<S::Ok, S::Error> {
                // The inherent function that `remote = "Self"` derives.
                Self::serialize(self, to)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> ::std::result::Result<Self, D::Error> {
                let value = Self::deserialize(from)?;
                value.check().map_err(::serde::de::Error::custom)?;
                Ok(value)
            }
        }
    };
}
