-- The header Upload-Metadata as a tus client sent it at the creation of a resumable upload: the protocol asks
-- that HEAD answers with it. Null where none was sent.
alter table upload_partial add column metadata text;
