//! JSON read strictly: where an object is expected, an array is refused.
//!
//! serde's derived structs also take an array with their fields in order, which no API means to accept: a caller's
//! mistake would be read as something else. [`Strict`] wraps a deserializer and asks it for a map wherever a type
//! asks for a struct, at any depth. Documents of users (`RawValue`) pass through untouched, whatever they hold.
//! Types that buffer what they read (`flatten`, `untagged`, internal tags) are not covered; requests have none.

use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// The name under which serde_json recognizes a value to be kept as text.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// Reads JSON text strictly.
pub fn from_str<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(Strict(&mut deserializer))?;
    deserializer.end()?;
    Ok(value)
}

/// A deserializer, or an access of one, that takes no array for an object.
#[derive(Debug)]
pub struct Strict<T>(pub T);

/// Passes calls on to the deserializer inside, with the visitor wrapped.
macro_rules! pass_on {
    ($($method:ident($($argument:ident: $type:ty),*))*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* Strict(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    pass_on! {
        deserialize_any() deserialize_bool()
        deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64() deserialize_i128()
        deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
        deserialize_f32() deserialize_f64() deserialize_char()
        deserialize_str() deserialize_string() deserialize_bytes() deserialize_byte_buf()
        deserialize_option() deserialize_unit() deserialize_unit_struct(name: &'static str)
        deserialize_seq() deserialize_tuple(length: usize)
        deserialize_tuple_struct(name: &'static str, length: usize)
        deserialize_map() deserialize_enum(name: &'static str, variants: &'static [&'static str])
        deserialize_identifier() deserialize_ignored_any()
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Strict(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        if name == RAW_VALUE {
            return self.0.deserialize_newtype_struct(name, visitor);
        }
        self.0.deserialize_newtype_struct(name, Strict(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

/// Passes plain values on to the visitor inside.
macro_rules! pass_values_on {
    ($($method:ident($type:ty))*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(formatter)
    }

    pass_values_on! {
        visit_bool(bool)
        visit_i8(i8) visit_i16(i16) visit_i32(i32) visit_i64(i64) visit_i128(i128)
        visit_u8(u8) visit_u16(u16) visit_u32(u32) visit_u64(u64) visit_u128(u128)
        visit_f32(f32) visit_f64(f64) visit_char(char)
        visit_str(&str) visit_borrowed_str(&'de str) visit_string(String)
        visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(deserializer))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(deserializer))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Strict(access))
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(access))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Strict(access))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Strict<A> {
    type Error = A::Error;
    type Variant = Strict<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.0.variant_seed(seed)?;
        Ok((value, Strict(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Strict(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, Strict(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, A::Error> {
        self.0.newtype_variant_seed(MapSeed(visitor))
    }
}

/// Reads a map into a visitor.
struct MapSeed<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for MapSeed<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_map(Strict(self.0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use crate::{
        Document,
        api::{FinishBody, NewItem, NewJob, ResultBody, StepBody},
        job_type::JobTypeSpec,
    };

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Shape {
        Point { x: i32 },
        Pair(i32, i32),
        Nothing,
    }

    fn refused<T: DeserializeOwned>(text: &str) {
        assert!(from_str::<T>(text).is_err(), "taken: {text}");
    }

    #[test]
    fn array_instead_of_object_is_refused_at_any_depth() {
        assert!(
            serde_json::from_str::<NewJob>(r#"["a"]"#).is_ok() || serde_json::from_str::<ResultBody>("[1]").is_ok()
        );
        refused::<NewItem>("[1]");
        refused::<NewItem>("[]");
        refused::<Vec<NewItem>>("[[1]]");
        refused::<NewJob>(r#"["a"]"#);
        refused::<NewJob>(r#"{"type":"a","items":[["x"]]}"#);
        refused::<NewJob>(r#"{"type":"a","on_completed":["https://a.example/"]}"#);
        refused::<NewJob>(r#"{"type":"a","upload":["0190a5e0-0000-7000-8000-000000000000"]}"#);
        refused::<NewJob>(r#"{"type":"a","children":[{"type":"b","children":[["c"]]}]}"#);
        refused::<JobTypeSpec>(r#"{"name":"a","executor":["pull"]}"#);
        refused::<JobTypeSpec>(r#"{"name":"a","backoff":[1,2,3.0,true]}"#);
        refused::<JobTypeSpec>(
            r#"{"name":"a","executor":{"kind":"push","url":"https://a.example/","auth":["u","p"]}}"#,
        );
        refused::<ResultBody>("[1]");
        refused::<StepBody>(r#"["charged", {}]"#);
        refused::<FinishBody>(r#"{"endings":[["0190a5e0-0000-7000-8000-000000000000",{}]]}"#);
        refused::<Shape>(r#"{"point":[1]}"#);
    }

    #[test]
    fn strict_reader_accepts_ordinary_json() {
        assert_eq!(from_str::<Shape>(r#"{"point":{"x":1}}"#).expect("a struct"), Shape::Point { x: 1 });
        assert_eq!(from_str::<Shape>(r#"{"pair":[1,2]}"#).expect("a tuple"), Shape::Pair(1, 2));
        assert_eq!(from_str::<Shape>(r#""nothing""#).expect("a unit"), Shape::Nothing);
        assert_eq!(from_str::<(i32, Option<i32>)>("[1,null]").expect("a tuple"), (1, None));
        let map: BTreeMap<String, Document> = from_str(r#"{"a":[1.10],"b":{"c":1e400}}"#).expect("a map");
        assert_eq!((map["a"].text(), map["b"].text()), ("[1.10]", r#"{"c":1e400}"#));
        let item: NewItem = from_str(r#"{"payload":[9007199254740993, [1]],"priority":5}"#).expect("an item");
        assert_eq!(item.payload.expect("a payload").text(), "[9007199254740993, [1]]");
        let spec = r#"{"name":"a","max_failures":"unlimited","backoff":{"min_seconds":1},"executor":{"kind":"pull"}}"#;
        from_str::<JobTypeSpec>(spec).expect("a job type");
        refused::<NewItem>(r#"{"payload":1} x"#);
    }
}
