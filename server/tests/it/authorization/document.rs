//! Generator of docs/authorization.md.

use std::fmt::Write as _;

use super::{
    callers::CallerKind,
    table::{Access, Expectation},
};

/// Text above the table.
const HEAD: &str = "# Who may do what

Generated from the table in `server/tests/it/authorization/table.rs`, which a test compares with the OpenAPI document and with a running
server: every kind of caller sends every operation. After you change the table, regenerate this page with
`TREELINE_WRITE_DOCS=1 cargo test -p server --test it authorization`.

The columns are callers. A **user** asks about their own things, an **other user** about the user's; **support** and **admin** are people of these
roles who ask about the user's things. A **share link** opens one tree to whoever has it. Tokens with one scope (`jobs:read`, `jobs:write`, `work`,
`metrics`) ask about the things of the service they belong to; a token with `admin`, and a token of an **other owner** with `jobs:read`, `jobs:write` and
`work`, about the user's. A **narrowed** token has the scope `work` for another job type.

- **yes**: the caller may do it. **own**: a list in which the caller finds only what is their own.
- **401**: there is no credential that counts here. **403**: this caller may not do it, whatever it is done to. **404**: to this caller the thing is not
  there. **409**: the id is taken, and nothing is said about by what.

Support staff and admins give a reason for what they do to the work of others, and it is in the audit log.

The forms of the API reference (`/api/docs/{operation}`) send requests through the same routes with the credential of their reader, so this table holds
for them too.

";

/// Text of the whole page.
pub(super) fn page(table: &[Expectation]) -> String {
    let mut page = HEAD.to_owned();
    let heads: Vec<&str> = CallerKind::ALL.iter().map(|caller_kind| caller_kind.title()).collect();
    let _ = writeln!(page, "| operation | {} |", heads.join(" | "));
    let _ = writeln!(page, "|---|{}", "---|".repeat(heads.len()));
    let mut written: Vec<&str> = Vec::new();
    for line in table {
        if written.contains(&line.operation) {
            continue;
        }
        written.push(line.operation);
        let cells: Vec<String> = line.rule.iter().map(|access| cell(*access)).collect();
        let _ = writeln!(page, "| `{}` | {} |", line.operation, cells.join(" | "));
    }
    page
}

fn cell(access: Access) -> String {
    match access {
        Access::Yes => "yes".to_owned(),
        Access::OwnOnly => "own".to_owned(),
        Access::No(status) => status.to_string(),
    }
}
