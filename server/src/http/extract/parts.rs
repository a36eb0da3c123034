//! Bodies with a list whose elements are independent requests: a malformed element is refused alone.

use axum::extract::{FromRequest, Request};
use domain::{
    Code, Problem,
    api::{Ending, EndingAnswer, FinishBody, HeartbeatAnswer, HeartbeatOf, HeartbeatsBody},
    bounded,
    dispatch::assignment::{AssignmentId, NamedAssignment},
    limits,
    problem::FieldProblem,
    strict_json::Strict,
};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{App, body_memory::BodyShare, http::error::Result, json_body};

use super::json_bytes;

/// Body with a list of requests about assignments.
pub trait AssignmentList: DeserializeOwned {
    /// Element of the list.
    type Element: DeserializeOwned;
    /// Name of the list.
    const NAME: &'static str;
    /// Maximum number of its elements.
    const MOST: usize;
}

impl AssignmentList for FinishBody {
    type Element = Ending;
    const NAME: &'static str = "endings";
    const MOST: usize = limits::MOST_ENDINGS;
}

impl AssignmentList for HeartbeatsBody {
    type Element = HeartbeatOf;
    const NAME: &'static str = "heartbeats";
    const MOST: usize = limits::MOST_HEARTBEATS;
}

/// JSON body without its malformed elements, and those elements.
#[derive(Debug)]
pub struct JsonParts<T> {
    pub body: T,
    pub malformed: Vec<Malformed>,
}

/// Element that is not a valid request.
#[derive(Debug)]
pub struct Malformed {
    /// Position in the list, from 0.
    pub at: usize,
    pub assignment_id: NamedAssignment,
    /// Response that the request would have had alone; its pointers begin at the element.
    pub problem: Problem,
}

/// Response to one element of a list.
pub trait ElementAnswer {
    /// Response to an element that was refused.
    fn refused(assignment_id: NamedAssignment, problem: Problem) -> Self;

    /// Errors of the response.
    fn errors(&mut self) -> &mut [FieldProblem];
}

macro_rules! answers {
    ($($answer:ident)*) => {
        $(impl ElementAnswer for $answer {
            fn refused(assignment_id: NamedAssignment, problem: Problem) -> Self {
                Self::refused(assignment_id, problem)
            }

            fn errors(&mut self) -> &mut [FieldProblem] {
                &mut self.errors
            }
        })*
    };
}

answers!(EndingAnswer HeartbeatAnswer);

/// Adds the answers to the malformed elements of a list, and makes the pointers of all errors begin at the body.
pub fn complete<T: AssignmentList>(answers: &mut Vec<impl ElementAnswer>, malformed: Vec<Malformed>) {
    for Malformed { at, assignment_id, problem } in malformed {
        answers.insert(at.min(answers.len()), ElementAnswer::refused(assignment_id, problem));
    }
    for (at, answer) in answers.iter_mut().enumerate() {
        let list = T::NAME;
        answer.errors().iter_mut().for_each(|error| error.pointer.insert_str(0, &format!("/{list}/{at}")));
    }
}

impl<T: AssignmentList> FromRequest<App> for JsonParts<T> {
    type Rejection = crate::http::error::Error;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let share = request.extensions().get::<BodyShare>().cloned();
        let bytes = json_bytes(request, app.config.body_limit.bytes()).await?;
        let parts = read_parts::<T>(&bytes)?;
        if let (Some(share), true) = (share, !parts.malformed.is_empty()) {
            share.hold(bytes.len() + parts.malformed.len() * REFUSAL_BYTES, true)?;
        }
        Ok(parts)
    }
}

/// Memory that the refusal of an element takes, at most.
const REFUSAL_BYTES: usize = 1 << 10;

/// Every body that has such a list, with its elements still unread.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Unread<'a> {
    #[serde(borrow, default, deserialize_with = "list", skip_serializing_if = "Option::is_none")]
    endings: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default, deserialize_with = "list", skip_serializing_if = "Option::is_none")]
    heartbeats: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    claim: Option<&'a RawValue>,
}

fn list<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Vec<&'de RawValue>>, D::Error> {
    bounded::list(deserializer).map(Some)
}

/// Reads the body at once; if that fails, element by element. Refused if the body itself is malformed.
pub fn read_parts<T: AssignmentList>(bytes: &[u8]) -> engine::error::Result<JsonParts<T>> {
    let refusal = match json_body::read(bytes) {
        Ok(body) => return Ok(JsonParts { body, malformed: Vec::new() }),
        Err(refusal) => refusal,
    };
    let Some(mut unread) = read_borrowed::<Unread<'_>>(bytes) else { return Err(refusal) };
    let list = if T::NAME == FinishBody::NAME { &mut unread.endings } else { &mut unread.heartbeats };
    let (mut malformed, mut at) = (Vec::new(), 0);
    if let Some(list) = list.as_mut().filter(|list| list.len() <= T::MOST) {
        list.retain(|element| {
            let found = read_element::<T::Element>(element.get(), at);
            at += 1;
            found.map(|found| malformed.push(found)).is_none()
        });
    }
    if malformed.is_empty() {
        return Err(refusal);
    }
    let rest = serde_json::to_vec(&unread).map_err(|e| engine::error::Error::Broken(e.to_string()))?;
    Ok(JsonParts { body: json_body::read(&rest)?, malformed })
}

/// Field of a malformed element that its refusal repeats. The others are skipped, not stored: an element can fill a body.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow, default)]
    assignment_id: Option<&'a RawValue>,
}

fn read_borrowed<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = T::deserialize(Strict(&mut deserializer)).ok()?;
    deserializer.end().ok().map(|()| value)
}

/// Returns the element if it is malformed.
fn read_element<E: DeserializeOwned>(text: &str, at: usize) -> Option<Malformed> {
    let Err(engine::error::Error::Problem(problem)) = json_body::read::<E>(text.as_bytes()) else { return None };
    let named = read_borrowed::<Named<'_>>(text.as_bytes()).and_then(|element| element.assignment_id);
    let given: String = named.and_then(|id| serde_json::from_str(id.get()).ok()).unwrap_or_default();
    Some(match given.parse::<AssignmentId>() {
        Ok(id) => Malformed { at, assignment_id: id.into(), problem: *problem },
        Err(_) if given.is_empty() => {
            Malformed { at, assignment_id: NamedAssignment::Text(String::new()), problem: *problem }
        }
        // As in the path of a single request, text that is not an ID names no assignment.
        Err(_) => {
            let short = given[..given.floor_char_boundary(LONGEST_ECHO)].to_owned();
            let problem = Problem::new(Code::NotFound, "The assignment_id is not the id of an assignment.");
            Malformed { at, assignment_id: NamedAssignment::Text(short), problem }
        }
    })
}

/// Maximum number of bytes of a text in place of an id that the answer repeats.
const LONGEST_ECHO: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0190a5e0-0000-7000-8000-000000000000";

    fn finish(text: &str) -> engine::error::Result<JsonParts<FinishBody>> {
        read_parts(text.as_bytes())
    }

    #[test]
    fn malformed_elements_are_refused_alone() {
        let bad = [
            r#"{"assignment_id":"ID","surprise":1}"#,
            r#"{"assignment_id":"ID","error":{}}"#,
            r#"{"assignment_id":"ID","result":"\u0000"}"#,
            r#"{"assignment_id":"ID","result":{"a":1,"a":2}}"#,
            r#"{"result":1}"#,
            "[]",
            "7",
        ];
        let all = bad.iter().map(|element| format!("{{\"assignment_id\":\"ID\"}},{element}")).collect::<Vec<_>>();
        let text = format!(r#"{{"endings":[{}],"claim":null}}"#, all.join(",")).replace("ID", ID);
        let parts = finish(&text).expect("a body");
        assert_eq!(parts.body.endings.len(), bad.len());
        let places: Vec<usize> = parts.malformed.iter().map(|malformed| malformed.at).collect();
        assert_eq!(places, [1, 3, 5, 7, 9, 11, 13]);
        assert!(parts.malformed.iter().all(|malformed| malformed.problem.code == Code::InvalidBody));
        assert_eq!(parts.malformed[1].problem.errors[0].pointer, "/error/message");
        assert_eq!(parts.malformed[1].assignment_id.uuid(), ID.parse().ok());
        assert_eq!(parts.malformed[4].assignment_id, NamedAssignment::Text(String::new()));
    }

    #[test]
    fn text_that_is_no_id_names_nothing() {
        let parts = finish(r#"{"endings":[{"assignment_id":"one"}]}"#).expect("a body");
        assert_eq!(parts.malformed[0].problem.code, Code::NotFound);
        assert_eq!(parts.malformed[0].assignment_id, NamedAssignment::Text("one".to_owned()));
    }

    #[test]
    fn body_that_is_malformed_itself_is_refused_whole() {
        let code = |text: &str| match finish(text) {
            Err(engine::error::Error::Problem(problem)) => {
                (problem.code, problem.errors.first().map(|e| e.pointer.clone()))
            }
            other => panic!("not refused: {other:?}"),
        };
        assert_eq!(code("{\"endings\":[").0, Code::InvalidJson);
        assert_eq!(code(r#"{"endings":{}}"#), (Code::InvalidBody, Some("/endings".to_owned())));
        assert_eq!(code(r#"{"endings":[{}],"claim":{"max":"x"}}"#), (Code::InvalidBody, Some("/claim/max".to_owned())));
        assert_eq!(code(r#"{"endings":[{}],"endings":[]}"#).0, Code::InvalidBody);
        let many = format!("{{\"endings\":[{}1]}}", "1,".repeat(limits::MOST_ENDINGS));
        assert_eq!(code(&many), (Code::InvalidBody, Some("/endings/0".to_owned())));
        let open = format!(r#"[[{{"assignment_id":"{ID}","result":1}},7]]"#);
        assert_eq!(code(&open).0, Code::InvalidBody);
        assert_eq!(code("[[7]]").0, Code::InvalidBody);
        assert_eq!(code(r#"{"endings":[7]} 1"#).0, Code::InvalidJson);
        assert_eq!(code(r#"{"endings":[],"surprise":1}"#), (Code::InvalidBody, Some("/surprise".to_owned())));
    }
}
