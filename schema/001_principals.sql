create table installation (
    id        uuid not null default gen_random_uuid(),
    singleton boolean primary key default true,
    constraint installation_singleton_check check (singleton)
);
insert into installation default values;
comment on table installation is 'Tells databases and sessions of this installation from those of another on the same server.';

create type key_type as enum ('service', 'client');

create table api_keys (
    id           uuid primary key,
    type         key_type not null,
    name         text not null,
    prefix       text not null,
    hash         bytea not null,
    scopes       text[] not null default '{}',
    user_id      uuid,
    created_by   text not null,
    created_at   timestamptz not null default now(),
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz,
    constraint api_keys_hash_key unique (hash),
    constraint api_keys_user_check check ((type = 'client') = (user_id is not null))
);
create index api_keys_user_id_idx on api_keys (user_id) where user_id is not null;

comment on table api_keys is 'Service and client keys. The key itself is nowhere; hash is its SHA-256.';
comment on column api_keys.prefix is 'The first characters of the key, to tell keys apart in lists.';
comment on column api_keys.user_id is 'Whom a client key acts as; null for service keys.';
comment on column api_keys.last_used_at is 'Written at most once a minute.';

-- Every server process keeps a short cache of keys; this tells it what to forget.
create function notify_api_key() returns trigger language plpgsql as $$
begin
    perform pg_notify('bough_keys', encode(old.hash, 'hex'));
    return null;
end $$;
create trigger api_keys_changed after delete or update of revoked_at, expires_at, scopes on api_keys
    for each row execute function notify_api_key();

create table signing_keys (
    kid        text primary key,
    public_jwk jsonb not null,
    created_at timestamptz not null default now(),
    retired_at timestamptz
);
comment on table signing_keys is 'Public keys (RFC 7517) that access tokens are verified with. kid is the RFC 7638 thumbprint.';
comment on column signing_keys.retired_at is 'From then on tokens signed with the key are refused.';

create function notify_signing_keys() returns trigger language plpgsql as $$
begin
    perform pg_notify('bough_signing_keys', '');
    return null;
end $$;
create trigger signing_keys_changed after insert or update or delete on signing_keys
    for each statement execute function notify_signing_keys();

---- create above / drop below ----

drop table signing_keys;
drop function notify_signing_keys();
drop table api_keys;
drop function notify_api_key();
drop type key_type;
drop table installation;
