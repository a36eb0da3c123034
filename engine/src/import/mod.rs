//! Files on their way to items: storage, encodings, header, column mapping, and rows.
//!
//! Reading is resumable at any row. No transaction is open while a file is read.

pub mod files; // uploaded files as bytes
pub mod split; // from files to rows
pub mod stage; // workbooks converted to lines
pub mod table_cells; // payloads as table cells, and formula escaping
pub mod turns; // one long task at a time for each owner
pub mod upload_head; // the header of a file
pub mod workbook; // from Excel workbooks to lines
