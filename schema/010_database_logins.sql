create table database_logins (
    role       text primary key,
    password   bytea not null,
    applied    boolean not null default false,
    rotated_at timestamptz not null default now()
);

comment on table database_logins is 'The roles that Bough creates for logging in to main and the branches, with their passwords.';
comment on column database_logins.password is 'Encrypted, with the name of the role bound to it.';
comment on column database_logins.applied is 'False until the database server has the password: whoever needs it sets it first.';

---- create above / drop below ----

drop table database_logins;
