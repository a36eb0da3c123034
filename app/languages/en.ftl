# English texts of Treeline, in Fluent syntax (https://projectfluent.org).
#
# Keys that start with live-, time- and script- also go to the browser. How to add a language: docs/languages.md.

language-name = English

# Navigation and shell
nav-overview = Overview
nav-jobs = Jobs
nav-failures = Failures
nav-operations = Operations
nav-imports = Imports
nav-workers = Workers
nav-job-types = Job types
nav-schedules = Schedules
nav-webhooks = Webhooks
nav-people = People
nav-api-access = API access
nav-audit-log = Audit log
nav-more = More
nav-group-work = Work
nav-group-files = Files
nav-group-run = Run
nav-group-admin = Admin
nav-main = Main
shell-skip = Skip to content
shell-expand-sidebar = Expand the sidebar
shell-collapse-sidebar = Collapse the sidebar
shell-expand = Expand
shell-collapse = Collapse
shell-home = Treeline, home
shell-shortcuts = Keyboard shortcuts
shell-search = Search
shell-search-hint = Search jobs, items, errors…
shell-search-keys = Ctrl K
shell-palette = Search and go to
shell-palette-hint = Search, or go to a page
shell-palette-results = Results
shell-palette-move = move
shell-palette-open = open
shell-palette-close = close
shell-palette-paste = Paste the id of a job or an item to open it
shell-key-enter = Enter
shell-account-of = Account: { $name }
shell-account = Account
shell-documentation = Documentation
shell-api-reference = API reference
shell-theme = Theme
shell-language = Language
shell-sign-out = Sign out
shell-sections = Sections
shell-breadcrumb = Breadcrumb
role-admin = Admin
role-support = Support
role-user = Uploader
theme-system = System
theme-light = Light
theme-dark = Dark

# Keyboard shortcuts and menu
menu-title = Menu
keys-text = Single keys do nothing while you type. Press ? on any page to switch them off in this browser.
keys-off = Switch single-key shortcuts off in this browser
keys-close-dialog = Close
keys-go-to = Go to
keys-lists = Lists
keys-everywhere = Everywhere
keys-next = Next row
keys-previous = Previous row
keys-open = Open the row
keys-select = Select the row
keys-select-range = Select from the last one to this row
keys-filter = Go to the filter
keys-show = Show these keys
keys-close = Close, leave a field, or select nothing

# Notices
bell-notices = Notices
bell-unread-count = Notices: { $n } unread
bell-read-all = Mark all as read
bell-none = Nothing yet. You are told here when your imports and the jobs that you watch finish or need attention.
bell-settings = Notice settings
bell-unread = Unread
bell-attention-failed = Needs attention: { $n } failed
bell-attention-answer = Needs attention: waits for an answer
bell-completed-failed = Completed, { $n } failed

# Time, on every page
time-seconds = { $n } s
time-minutes = { $n } min
time-hours = { $n } h
time-days = { $n } d
time-now = just now
time-minutes-ago = { $n } min ago
time-hours-ago = { $n } h ago
time-one-day-ago = 1 day ago
time-days-ago = { $n } days ago

# Sign-in
signin-title = Sign in
signin-email = Email address
signin-password = Password
signin-signed-out = You are signed out.
signin-with-passkey = Sign in with a passkey
signin-use-passkey = Use a passkey
signin-with = Sign in with { $provider }
signin-help = No account, or forgot your password? Ask an admin for a sign-in link. On the first start, the terminal that runs Treeline prints one.
signin-services = Services use a token instead: { $reference }, { $documentation }.
signin-too-many = Too many attempts
signin-try-in = Try again in { $time }.
signin-wrong = Email or password is wrong
signin-wrong-text = Check both and try again.
signin-wrong-code = That code is wrong
signin-wrong-code-text = Check it, or use another way. Each code works once.
signin-second = Second factor
signin-second-help = Lost your second factor and your recovery codes? An admin can reset it.
signin-start-over = Start over
signin-code = Code
signin-code-help = The six digits that your authenticator app shows now.
signin-recovery = Recovery code
signin-recovery-help = If you have lost your second factor. Each code works once.
signin-not = You are not signed in
signin-other-ways = Other ways to sign in
signin-link-title = Sign in to Treeline
signin-link-text = This link works once. Continue to use it in this browser.
signin-expired = This link has expired or was used
signin-expired-ask = Ask an admin for a new one.
signin-expired-maybe = If you used it in this browser, you are probably signed in.
signin-invalid = Link not valid

# Error pages
error-open = Open Treeline
error-try-again = Try again
error-jobs = See your jobs
error-request-id = Request ID:
error-not-found = Page not found
error-not-found-text = The address may be wrong, or the page belongs to someone else.
error-forbidden = You cannot see this page
error-unauthenticated = Sign in to continue
error-unauthenticated-text = This page is for people who are signed in.
error-removed = This job was removed
error-removed-text = It was deleted, or its retention is over. Its items, results, and downloads are gone.
error-database = Treeline cannot reach its database
error-database-text = What is stored is safe, and work continues when it is back. Try again in a few seconds.
error-still-here = What you typed is still here.
error-send-again = Send again
error-restarting = This server is restarting
error-restarting-text = Try again in a few seconds.
error-internal = Something went wrong on the server
error-internal-text = Try again. If it keeps happening, send the request ID to an admin.
error-not-possible = That is not possible

# Forms
form-reason = Reason
form-reason-help = This is the work of { $owner }. The reason is kept in the audit log.
form-reason-others = Reason (this is someone else's work; the reason is kept in the audit log)
form-reason-optional = Reason (optional)
form-optional = (optional)
form-nothing-saved = Nothing was saved
form-nothing-changed = Nothing was changed
form-reason-required = A reason is required
form-reason-required-text = This is someone else's work. The reason is kept in the audit log.

# Language of a page
language-choice = Language
language-browser = As in the browser
language-save = Save language
language-help = Numbers and dates follow the language and, as far as your browser names one, your region.
language-saved = Your language is saved.

# Imports
imports-new = New import
imports-recent = Recent imports
imports-older = Older imports
imports-older-link = Older
imports-pages = Pages
imports-deleted = Deleted, with all its rows and results.
imports-first = Your first import starts here
imports-first-text = Drop a spreadsheet above. You see its rows, watch them being worked on one by one, and download the results. Rows that fail come back with the reason.
imports-none = No imports yet
imports-none-text = Files that you import appear here.
imports-none-older = No older imports
imports-none-older-text = Everything older has been deleted, or there was nothing before.
imports-watch = Watch
imports-watch-name = Watch { $name }
imports-fix = Fix rows
imports-fix-name = Fix rows of { $name }
imports-results-name = Results of { $name }
imports-open = Open
imports-open-name = Open { $name }
imports-done-failed = { $done } done, { $failed } failed
progress-of = Progress of { $name }

# New import
import-step-upload = Upload
import-step-review = Review and start
import-steps = Steps
import-review-files = Review files
import-review = Review rows
import-review-corrected = Review corrected rows
import-upload-corrected = Upload corrected rows
import-not-started-title = Not started: { $heading }
import-corrects = These rows correct { $import }. Upload the list of failed rows as it was downloaded: columns that begin with _ are left out, and each row keeps its line.
import-sample = No file at hand?
import-sample-try = Try a sample CSV
import-sample-download = Download it
import-advice = Look at how the file is read, then start the import.
import-show-again = Show the rows again
import-start = Start import
import-check-again = Check again
import-uploaded = { $size } uploaded
import-replace = Replace
import-no-rows = The file has no rows
import-bad-header = The header has empty or repeated column names
import-too-large = The file is too large
import-unsupported = This file type is not supported
import-not-started = The import was not started
import-larger = The file is larger than { $limit }. Split it and import the parts.
import-unreadable = The file cannot be read
import-unreadable-header = Choose the row that names the columns above, or “No header”. Or correct the file and upload it again.
import-unreadable-file = Correct the file and upload it again.
import-line = Line
import-column = Column { $n }
import-no-column = no column
import-cell-line = { $name }, line { $line }
import-detect = Detect from the file
import-sheet = Sheet
import-separator = Separator
import-encoding = Encoding
import-name = Name
import-name-help = How you will find the import again.
import-type = Job type
import-type-help = Decides what happens with each row.
import-header = Header
import-header-yes = A row names the columns
import-header-no = No header
import-header-row = Header row
import-header-row-help = Empty: the first row. Rows above it are skipped.
separator-comma = Comma
separator-semicolon = Semicolon
separator-tab = Tab
separator-bar = Vertical bar
encoding-windows-1252 = Windows-1252 (Western Europe)
encoding-iso-8859-15 = ISO-8859-15 (Western Europe)
encoding-windows-1250 = Windows-1250 (Central Europe)
encoding-windows-1251 = Windows-1251 (Cyrillic)
encoding-shift-jis = Shift JIS (Japanese)
encoding-gb18030 = GB 18030 (Chinese)
import-start-rows =
    { $n ->
        [one] Import 1 row
       *[other] Import { $n } rows
    }
facts-comma = comma
facts-semicolon = semicolon
facts-tab = tab
facts-bar = vertical bar
facts-table = table
facts-first-sheet = first sheet of the workbook
facts-json-array = JSON array
facts-lines = lines of text
facts-one = one item
facts-ndjson = one JSON value per line
facts-columns =
    { $n ->
        [one] 1 column
       *[other] { $n } columns
    }
preview-all = All rows
preview-first = First rows
preview-read =
    { $n ->
        [one] 1 row, as it is read
       *[other] { $n } rows, as they are read
    }
preview-read-bad =
    { $n ->
        [one] { $rows }, { $n } has a problem and will be set aside
       *[other] { $rows }, { $n } have problems and will be set aside
    }
preview-columns-cut = The first { $shown } of { $all } columns
preview-unchecked = These are the first rows
preview-unchecked-text = All rows of the file are checked before the start, so that you can fix those with problems here.
preview-header = The column names seem to be in row { $row }. What is above it is then not imported.
preview-header-use = Use row { $row }
preview-cannot-read-text = The reason is below each. You can start and fix them later: they are set aside. Or correct the file and replace it.
preview-expected = Expected columns: { $names }.
preview-expected-more = Expected columns: { $names } and { $n } more.
preview-findings-text = You can start and fix them later: rows that do not fit are set aside with the reason. Or correct the file and replace it.
preview-cannot-read =
    { $n ->
        [one] 1 row cannot be read
       *[other] { $n } rows cannot be read
    }
preview-fits =
    { $n ->
        [one] The columns and the first row fit what { $name } expects.
       *[other] The columns and the first { $n } rows fit what { $name } expects.
    }
preview-findings =
    { $n ->
        [one] 1 thing does not fit what { $name } expects
       *[other] { $n } things do not fit what { $name } expects
    }
template-of = Template of { $name } as { $kind }
template-excel = Excel template
template-csv = CSV template
template-title = Start from a template
template-text = Fill in a file that already has the right columns. The first rows are examples: replace them.
files-refused = Not uploaded.
files-text = Nothing has started yet. Review the rows of each file, then start its import. You can come back to this page.
files-more = Upload more files

# Rows of a checked file
grid-all-ready =
    { $n ->
        [one] The only row is ready
       *[other] All { $n } rows are ready
    }
grid-ready =
    { $n ->
        [0] No row is ready
        [one] 1 row is ready
       *[other] { $n } rows are ready
    }
grid-attention =
    { $n ->
        [one] { $n } needs attention
       *[other] { $n } need attention
    }
grid-left-out =
    { $n ->
        [one] { $n } is left out
       *[other] { $n } are left out
    }
grid-advice-none = No row would be imported. Choose rows that should be.
grid-advice-start = { $summary }. Start the import below.
grid-advice-fix =
    { $n ->
        [one] { $n } of { $rows } has a problem. Fix it here, or start anyway: that row is set aside and you can fix it later.
       *[other] { $n } of { $rows } have problems. Fix them here, or start anyway: those rows are set aside and you can fix them later.
    }
grid-leave-out = Leave out
grid-leave-out-line = Leave out line { $line }
grid-all-columns = Show all { $n } columns of each row
grid-rows = Rows
grid-not-imported = not imported
grid-show = Show rows
grid-show-all = All
grid-show-problems = Only problems
grid-show-changed = Changed
grid-cut = Of { $rows } you see the first { $first } and the last { $last }.
grid-cut-special = Of { $rows } you see the first { $first } and the last { $last }, and every row with a problem or a change.
grid-too-many = There are more rows with problems than fit here. It is easier to correct the file and replace it.
grid-next-fields = Fix the rows with fields and check again; then the next ones get fields.
grid-columns-cut = The first { $shown } of { $all } columns.
grid-keys = { $enter } moves down, { $alt } { $down } to the next problem, { $escape } restores the cell.
grid-lines = Lines are those of your file.
grid-problems-csv = Problems as CSV
grid-was-empty = Was empty
grid-changed-from = Changed from “{ $text }”
grid-use = Use “{ $text }”
grid-use-in-line = Use “{ $text }” in line { $line }
grid-extra-cells = Leave out the extra cells
grid-missing-cells = The missing cells are empty
grid-correct-in-file = Correct this in the file, or leave out the row.
fixes-title = Fixes of several rows
fixes-as-proposed = Fix { $n } as proposed
fixes-leave-out = Leave out { $n } rows
fixes-rows =
    { $n ->
        [one] 1 row has a problem
       *[other] { $n } rows have a problem
    }

# Columns of a file
kind-text = Text
kind-number = Number
kind-integer = Whole number
kind-boolean = Yes or no
kind-date = Date
kind-in-text-text = text
kind-in-text-number = number
kind-in-text-integer = integer
kind-in-text-boolean = boolean
kind-in-text-date = date
columns-title = Match columns
columns-matched = { $n } of { $all } matched by name
columns-none-required = No column is required.
columns-required = Required: { $names }.
columns-missing = Choose a column for { $names }.
columns-remembered = Your choices are suggested again for the next file.
columns-property-for = Property for { $name }
columns-values-of = Values of { $name }
columns-do-not-import = Do not import
columns-left-out = Left out
columns-match = Matched
columns-check = Check
columns-your-choice = your choice
columns-remembered-choice = as in your last import
columns-same-name = same name
columns-similar-name = similar name
columns-nothing-fits = no property fits

# Page of an import
progress-attention =
    { $n ->
        [one] { $rows } needs attention
       *[other] { $rows } need attention
    }
progress-none = No rows could be imported
progress-imported-by = Imported by { $owner }
progress-uploaded = Uploaded { $time }
progress-created = Created { $time }
progress-job-type = Job type { $name }
progress-open-job = Open as a job
progress-fix = Fix { $rows }
progress-download-failed = Download failed rows
progress-try-again = Try again
progress-try-again-text = Already corrected the list of failed rows? Upload it: only those rows are worked on again, and they keep their line numbers.
progress-corrects = These rows correct { $import }.
progress-corrected-by = Corrected rows were uploaded as { $import }.
progress-canceled = The import is canceled
progress-canceled-text = Rows that had not started will not run. What is done stays done.
progress-delete = Delete…
progress-delete-job = Delete job…
progress-delete-question = Delete “{ $name }”?
progress-delete-text = Its rows, their results and all downloads are deleted at once. This cannot be undone.
progress-delete-import-button = Delete import
progress-delete-job-button = Delete job
progress-keep = Keep it
progress-cancel = Cancel import…
progress-cancel-job = Cancel job…
progress-cancel-question = Cancel “{ $name }”?
progress-cancel-button = Cancel import
progress-cancel-job-button = Cancel job
progress-keep-running = Keep running
cancel-waiting =
    { $kind ->
        [row]
            { $n ->
                [one] 1 waiting row will not run.
               *[other] { $n } waiting rows will not run.
            }
       *[item]
            { $n ->
                [one] 1 waiting item will not run.
               *[other] { $n } waiting items will not run.
            }
    }
cancel-running =
    { $n ->
        [one] { $n } in progress is told to stop.
       *[other] { $n } in progress are told to stop.
    }
cancel-results =
    { $kind ->
        [row] Finished results stay, and no more rows can be added. This cannot be undone.
       *[item] Finished results stay, and no more items can be added. This cannot be undone.
    }
downloads-title = Downloads
downloads-results = Results
downloads-results-so-far = Results so far
downloads-results-as = Results, { $format }
downloads-each-reason = { $rows }, each with its reason
downloads-csv = CSV for another program
downloads-semicolon = Semicolon (Excel in most of Europe)
downloads-utf8-excel = UTF-8 for Excel
downloads-failed =
    { $kind ->
        [row] Failed rows
       *[item] Failed items
    }
downloads-failed-so-far =
    { $kind ->
        [row] Failed rows so far
       *[item] Failed items so far
    }
downloads-failed-as =
    { $kind ->
        [row] Failed rows, { $format }
       *[item] Failed items, { $format }
    }
failed-title =
    { $kind ->
        [row] Rows that failed
       *[item] Items that failed
    }
failed-in-groups =
    { $groups ->
        [one] { $rows }, in { $groups } group
       *[other] { $rows }, in { $groups } groups
    }
failed-so-far-in-groups =
    { $groups ->
        [one] { $rows } so far, in { $groups } group
       *[other] { $rows } so far, in { $groups } groups
    }
failed-more =
    { $n ->
        [one] 1 more reason is in the download.
       *[other] { $n } more reasons are in the download.
    }
failed-so-far = { $rows } so far
failed-nothing = Nothing has failed so far.
failed-counting = The reasons are being counted.
failed-later = Failed rows never hold up the others. You can fix them here when the import is done.
failed-fix = Fix { $n }
failed-encoding = The file may be in another encoding.
failed-encoding-link = Choose its encoding and import it again
failed-last = last { $time }
failed-last-of-more = and { $n } more like it, last { $time }
holds-rows =
    { $n ->
        [one] 1 row waits.
       *[other] { $n } rows wait.
    }
holds-paused = This kind of work is paused for now.
holds-nobody = Nobody has begun to work on files of this kind.
holds-nobody-since = Nobody has worked on files of this kind since { $time }.
holds-no-answer = What works on files of this kind does not answer at the moment.
holds-rest = Nothing is lost: they go on as soon as that changes.

# Reasons of faulty cells
problem-expected = Expected { $expected }, found { $found }.
problem-in-line = Line { $line }: expected { $expected }, found { $found }.
problem-in-column = Line { $line }, column { $column }: expected { $expected }, found { $found }.
problem-in-named-column = Line { $line }, column { $column } ({ $name }): expected { $expected }, found { $found }.
problem-of-column = Column { $column }: expected { $expected }, found { $found } in line { $line }.
problem-in-column-of-name = Column { $column }: expected { $expected }, found { $found }.
problem-of-row = The row: expected { $expected }, found { $found }.
problem-whole-row = the whole row
problem-number = a number
problem-whole-number = a whole number
problem-text = text
problem-true-or-false = true or false
problem-boolean = true, false, yes, no, 1 or 0
problem-object = an object
problem-array = an array
problem-value = a value
problem-nothing = nothing
problem-nothing-of-name = nothing of this name
problem-text-not-empty = text that is not empty
problem-name = a name
problem-closing-quote = a closing quote
problem-line-end = the line to end
problem-cell-end = the end of the cell behind its closing quote
problem-more-text = more text
problem-not-utf8 = bytes that are not UTF-8
problem-nul = a NUL character
problem-excel-date = the serial number of a day in Excel
problem-unreadable = a character that could not be read
problem-error = the error { $value }
problem-at-least = at least { $value }
problem-at-most = at most { $value }
problem-one-of = one of { $value }
problem-more-than = more than { $value }
problem-less-than = less than { $value }
problem-number-such-as = a number such as { $value }
problem-whole-number-such-as = a whole number such as { $value }
problem-date = a date in the format { $value }
problem-format = text in the format { $value }
problem-text-at-least = text of at least { $value } characters
problem-text-at-most = text of at most { $value } characters
problem-fields =
    { $n ->
        [one] 1 field
       *[other] { $n } fields
    }

# Reasons for not taking a file
problem-upload-zip = The file is a ZIP archive that is no Excel workbook. Unpack it, and upload that.
problem-upload-ending = The file is an Excel workbook with another ending. Change its name so that it ends in .xlsx, and upload that.
problem-upload-xls = The file is an old Excel workbook (XLS), or one that is protected by a password. Open it in Excel, save it as XLSX without a password, and upload that.
problem-upload-gzip = The file is a GZIP archive. Unpack it, and upload that.
problem-upload-pdf = The file is a PDF, which has no rows to read. Save or export the table as CSV or Excel (XLSX) in the program that it comes from, and upload that.
problem-upload-image = The file is an image. Save or export the table as CSV or Excel (XLSX) in the program that it comes from, and upload that.
problem-upload-no-workbook = The file is no Excel workbook, although it is called one. Save or export the table as CSV or Excel (XLSX) in the program that it comes from, and upload that.
problem-upload-quota = This file would not fit: your files would take more space than they may.
problem-upload-disk = The disk is nearly full. Nothing was stored; an admin has to make room.

# Correcting failed rows
correct-back = Back to the import
correct-none = Nothing to fix
correct-none-text = No row of this import has failed, or all of them are being retried.
correct-title = Fix failed rows
correct-page = Fix failed rows of { $name }
correct-page-refused = Nothing was retried: fix failed rows of { $name }
correct-text = Change what is wrong. Rows that you change are retried; the others stay as they are.
correct-cut = Showing the first { $shown } of { $all } failed rows. For many it is easier to { $download }, fix them there, and { $upload }.
correct-cut-download = download them
correct-cut-upload = upload them
correct-others = Also retry the rows I did not change
correct-retry = Retry changed rows
correct-unchanged = Nothing was changed: correct a row, or tick that the others are tried once more.
correct-misfits =
    { $n ->
        [one] One row does not fit yet; what is wrong is said at the row.
       *[other] { $n } rows do not fit yet; what is wrong is said at the row.
    }
correct-retried =
    { $n ->
        [one] 1 row is being retried
       *[other] { $n } rows are being retried
    }
correct-changed = Column { $column }: somebody has changed it to “{ $text }” since this page was shown. Retry again to replace that.

# Share links
share-button = Share
share-with-you = Shared with you, to look at
share-revoked = This link was revoked. Ask for a new one if you still need it.
share-expired = This link has expired. Ask for a new one if you still need it.
share-closed = The account of whoever shared this was closed. Ask for a new link if you still need it.
share-gone = What it showed is gone: it was deleted, or the time for which it is kept has passed.
share-nothing = There is nothing behind this link. Check that it was copied whole.
share-shows-nothing = This link shows nothing
share-your-link = Your link
share-copy-now = Copy it now; it is not shown again. It works until it ends or is revoked.
share-link = Link
share-reason-help = It is kept in the audit log.
share-text = A link lets anyone who has it see progress, problems, and downloads, and nothing else.
share-ends-after = Ends after
share-create = Create link
share-year = 1 year
share-visible = Visible to you, support, and administrators.
share-visible-owner = Visible to { $owner } and to support and administrators.
share-last-opened = last opened { $time }
share-never-opened = never opened
share-created = Created { $time } by { $name }
share-ends = Ends { $time }
share-revoke = Revoke this link
share-revoke-effect = Whoever has it sees nothing any more. This cannot be undone.
share-days =
    { $n ->
        [one] { $n } day
       *[other] { $n } days
    }
share-anyone =
    { $n ->
        [one] Also to anyone with the link.
       *[other] Also to anyone with one of the { $n } links.
    }

# Live parts of pages. The browser gets these texts, so they are few and short.
live-stale-since = Stale since { $time }
live-percent = { $n }%
live-bar-percent-done = { $percent }%, { $done } done
live-bar-percent-of = { $percent }%, { $done } of { $whole } done
live-bar-done = { $done } done
live-bar-failed = { $words }, { $n } failed
live-left-seconds = about { $low } to { $high } s left
live-left-minutes = about { $low } to { $high } min left
live-left-hours = about { $low } to { $high } h left
live-left-seconds-under = less than { $high } s left
live-left-minutes-under = less than { $high } min left
live-left-hours-under = less than { $high } h left
live-rate-second = { $n }/s
live-rate-minute = { $n }/min
live-state-succeeded = succeeded
live-state-done = done
live-state-failed = failed
live-state-running = in progress
live-state-retrying = retrying
live-state-waiting = waiting
live-state-scheduled = scheduled
live-state-blocked = blocked
live-state-waiting-for-event = waiting for an event
live-state-canceled = canceled
live-state-expired = expired
live-status-waiting = Waiting
live-status-running = In progress
live-status-canceling = Canceling
live-status-partial = Partly failed
live-status-failed = Failed
live-status-canceled = Canceled
live-status-completed = Completed
live-waiting = Waiting to start.
live-waiting-count = Waiting to start: { $rows }.
live-canceling = Canceling: { $rows } still in progress.
live-canceled-after = Canceled after { $done } of { $rows }.
live-nothing-to-do = Done. There was nothing to do.
live-count =
    { $kind ->
        [row]
            { $n ->
                [one] 1 row
               *[other] { $n } rows
            }
       *[item]
            { $n ->
                [one] 1 item
               *[other] { $n } items
            }
    }
live-reading =
    { $kind ->
        [row] Reading your file.
       *[item] Receiving items.
    }
live-reading-count =
    { $kind ->
        [row] Reading your file: { $rows } so far.
       *[item] Receiving items: { $rows } so far.
    }
live-working =
    { $kind ->
        [row] Working on your rows: { $done } of { $whole } are done.
       *[item] Working on the items: { $done } of { $whole } are done.
    }
live-working-reading =
    { $kind ->
        [row] Reading and working on your rows: { $done } of { $whole } are done so far.
       *[item] Working on the items: { $done } of { $whole } are done so far.
    }
live-done-of =
    { $kind ->
        [row]
            { $n ->
                [one] { $n } of { $rows } is imported.
               *[other] { $n } of { $rows } are imported.
            }
       *[item]
            { $n ->
                [one] { $n } of { $rows } is done.
               *[other] { $n } of { $rows } are done.
            }
    }
live-corrected =
    { $n ->
        [one] { $rows } was corrected in another import.
       *[other] { $rows } were corrected in another import.
    }
live-attention =
    { $n ->
        [one] { $rows } needs your attention.
       *[other] { $rows } need your attention.
    }
live-all-done =
    { $kind ->
        [row]
            { $n ->
                [one] 1 row is imported.
               *[other] All { $n } rows are imported.
            }
       *[item]
            { $n ->
                [one] 1 item is done.
               *[other] All { $n } items are done.
            }
    }
live-none-done =
    { $kind ->
        [row]
            { $n ->
                [one] 1 row could not be imported.
               *[other] None of the { $n } rows could be imported.
            }
       *[item]
            { $n ->
                [one] 1 item could not be done.
               *[other] None of the { $n } items could be done.
            }
    }
live-advice-corrected = Every failed row was corrected.
live-advice-import = You can close this page. The import goes on, and this address shows where it is.
live-advice-work = You can close this page. The work goes on, and this address shows where it is.
live-advice-canceling = Nothing new starts. What is in progress is told to stop.
live-advice-canceled = What was done before stays.
live-advice-reasons = The reasons are below.
live-advice-results = Your results are ready.
live-stage = Stage { $at } of { $of }: { $name }
live-job-waiting = Waiting for job to start…
live-job-canceling = Cancelling, { $n } still running…
live-job-running = Job running, { $percent }% complete…
live-job-running-done = Job running, { $n } done…
live-job-canceled = Job cancelled
live-job-complete = Job complete
live-job-failed = , { $n } of { $all } failed
live-job-corrected = , { $n } corrected
live-item = Item { $n }
live-row = Row { $n }
live-off = Not live
live-connecting = Connecting…
live-on = Live
live-reconnecting = Reconnecting…
live-stale = Stale
live-polling = Busy: every 10 s
live-paused = Paused
live-finished = Finished
live-removed = Removed
live-signed-out = Signed out
live-closed = Closed
live-resume = Resume
live-pause = Pause
live-refresh = Refresh
live-every-10s = Every 10 s
live-sign-in = Sign in
live-warning-stale = These numbers may be out of date: the connection is away. It comes back by itself.
live-warning-removed = This job was removed. What you see is the last that was known of it.
live-warning-closed = This link was revoked, or what it showed is gone. What you see is the last that was shown.
live-warning-signed-out = You are signed out. Sign in again to see how it goes on.
live-under-1s = under 1 s
live-took = Took { $took }
live-took-retries = Took { $took }, including later retries
live-took-average = Took { $took }, { $rate } on average
live-started = Started
live-says-again = Work goes on again.
live-says-lost = Connection lost, numbers may be out of date.
live-says-connected = Reconnected.
live-says-failed = { $n } failed so far.
live-says-percent = { $n }% done.
live-upload-waits = Waits for the files before it.
live-upload-unfinished = Not uploaded whole: { $n }% is here. Choose the file again to go on from there.
live-upload-broken = Connection lost at { $n }%. The upload goes on by itself.
live-upload-checking = Uploaded. Checking the file…
live-upload-sending = Uploading, { $n }%. Keep this page open.
live-upload-opening = Uploaded. Opening the first rows…
live-upload-stored = Uploaded. Nothing has started yet.
live-upload-drop = Drop files to import
live-upload-drop-one = Drop a file to import
live-upload-choose = Choose files
live-upload-choose-one = Choose file
live-upload-limits = CSV, Excel (XLSX), JSON or lines of text, up to { $size }; Excel up to { $excel }. You see its first rows before anything starts.
live-upload-send = Upload
live-upload-cancel = Cancel
live-upload-progress = File sent
live-upload-stop = Stop
live-upload-stop-file = Stop { $name }
live-upload-review = Review rows
live-upload-review-file = Review rows of { $name }
live-upload-files = Files
live-upload-stopped = Stopped.
live-upload-too-large = The file is larger than { $limit }: it has { $size }. Split it and import the parts.
live-upload-empty = The file is empty.
live-upload-signed-out = You are signed out. Sign in and choose the file again.
live-upload-refused = The server did not take the file. Try again in a moment.
live-upload-unreadable = This browser could not read the file. Choose it again.
live-bytes =
    { $n ->
        [one] 1 byte
       *[other] { $n } bytes
    }

# Scripts of pages. The browser gets these texts.
script-found-jobs = Jobs
script-found-items = Items
script-found-errors = Errors
script-found-uploads = Imports
script-found-workers = Workers
script-found-types = Job types
script-found-schedules = Schedules
script-found-views = Saved views
script-found-operations = Operations
script-found-people = People
script-found-services = Services
script-go-to = Go to
script-show-new = Show { $n } new
script-search = Search
script-search-all = Show all results for “{ $words }”
script-search-none = No results
script-search-failed = The search could not be reached
script-copy = Copy
script-copied = Copied
script-notice-attention = Needs attention: { $n } failed
script-notice-answer = Needs attention: waits for an answer
script-notice-canceled = Canceled
script-notice-failed = Failed
script-notice-partial = Completed, { $n } failed
script-notice-completed = Completed
script-stop = Stop
script-check-all = Check the whole file
script-checking = Checking all rows…
script-check-stopped = Stopped. You can start the import all the same.
script-check-failed = The rows could not be checked. Try again.
script-passkey-unused = The browser did not use a passkey: it was canceled, or there is none for this site.
script-passkey-exists = This device has a passkey for your account already.
