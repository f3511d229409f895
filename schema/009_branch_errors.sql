alter table branches add column error_code text;
comment on column branches.error_code is 'What kind of error a branch in status error is in: a stable identifier beside error_message, null where there is none.';

---- create above / drop below ----

alter table branches drop column error_code;
