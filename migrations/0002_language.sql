-- The language that a person chose for the pages, as a BCP 47 tag; null: that of the browser.
alter table owner add column language text check (length(language) between 2 and 35);
