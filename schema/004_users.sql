create type user_role as enum ('authenticated', 'admin');
create type sign_in_method as enum ('password', 'magic_link');
create type mail_purpose as enum ('magic_link', 'sign_up', 'change_email', 'reset', 'exchange');

create table users (
    id                uuid primary key,
    email             text not null,
    email_verified_at timestamptz,
    new_email         text,
    password_hash     text,
    role              user_role not null default 'authenticated',
    user_metadata     jsonb not null default '{}',
    app_metadata      jsonb not null default '{}',
    created_at        timestamptz not null default now(),
    updated_at        timestamptz not null default now(),
    last_sign_in_at   timestamptz,
    disabled_at       timestamptz,
    constraint users_email_key unique (email)
);
create index users_created_at_idx on users (created_at desc, id desc);

comment on column users.email is 'In lower case.';
comment on column users.email_verified_at is 'When the user showed that mail to the address reaches her; null when she has not.';
comment on column users.new_email is 'The address she asked to change to, until she confirms it.';
comment on column users.password_hash is 'argon2id in the PHC string format; null for a user who signs in by mail only.';
comment on column users.role is 'admin is an administrator of the installation. The database role of both is authenticated.';
comment on column users.user_metadata is 'What the user herself may write.';
comment on column users.app_metadata is 'What only administrators and service keys may write.';

-- A key acts as its user: the caches of keys forget those of a user who changes.
create function notify_user_keys() returns trigger language plpgsql as $$
begin
    perform pg_notify('bough_keys', encode(k.hash, 'hex')) from api_keys k where k.user_id = old.id;
    return null;
end $$;
create trigger users_changed after delete or update of role, disabled_at on users
    for each row execute function notify_user_keys();

create table sessions (
    id           uuid primary key,
    user_id      uuid not null references users (id) on delete cascade,
    method       sign_in_method not null,
    ip           text not null,
    network      text not null,
    user_agent   text not null,
    created_at   timestamptz not null default now(),
    refreshed_at timestamptz not null default now(),
    expires_at   timestamptz not null,
    ended_at     timestamptz
);
create index sessions_user_id_idx on sessions (user_id, created_at desc);
create index sessions_expires_at_idx on sessions (expires_at);

comment on column sessions.network is 'The network that the sign-in came from, by which a later one from there is known.';
comment on column sessions.expires_at is 'Moved on by each refresh.';
comment on column sessions.ended_at is 'Signed out, revoked, or ended because an old refresh token was used again.';

create table refresh_tokens (
    hash       bytea primary key,
    session_id uuid not null references sessions (id) on delete cascade,
    parent     bytea,
    created_at timestamptz not null default now(),
    used_at    timestamptz
);
create index refresh_tokens_session_id_idx on refresh_tokens (session_id);
create index refresh_tokens_parent_idx on refresh_tokens (parent);

comment on table refresh_tokens is 'Refresh tokens by their SHA-256. Used ones stay as long as the session, so that reuse is seen.';
comment on column refresh_tokens.parent is 'The token that this one was given for; null for the first of a session.';

create table mail_tokens (
    id             uuid primary key,
    purpose        mail_purpose not null,
    hash           bytea,
    code_hash      text,
    tries          integer not null default 0,
    email          text not null,
    user_id        uuid references users (id) on delete cascade,
    create_user    boolean not null default false,
    password_hash  text,
    user_metadata  jsonb not null default '{}',
    redirect_to    text,
    code_challenge text,
    created_at     timestamptz not null default now(),
    expires_at     timestamptz not null,
    used_at        timestamptz,
    constraint mail_tokens_hash_key unique (hash)
);
create index mail_tokens_expires_at_idx on mail_tokens (expires_at);
create index mail_tokens_user_id_idx on mail_tokens (user_id);
create index mail_tokens_email_idx on mail_tokens (email, created_at desc);

comment on table mail_tokens is 'Tokens that are sent by mail, and the codes they are exchanged for, by their SHA-256. Each works once.';
comment on column mail_tokens.id is 'Of a sign-up also the id of the user whom it makes.';
comment on column mail_tokens.hash is 'Null until the mail is made: the token exists in the mail alone.';
comment on column mail_tokens.code_hash is 'argon2id of the six digits that the mail has beside the link; a fast hash of so few would hide nothing.';
comment on column mail_tokens.tries is 'How often a code was tried; after five no code is right.';
comment on column mail_tokens.password_hash is 'Of a sign-up that is to be confirmed. There is no user before, so nobody can take an address that is not hers.';
comment on column mail_tokens.code_challenge is 'PKCE (RFC 7636, S256): whoever redeems the token must know what this was made from.';

create table rate_limits (
    key bytea primary key,
    tat timestamptz not null
);
create index rate_limits_tat_idx on rate_limits (tat);
comment on table rate_limits is 'Limits of attempts, one row for each address or network that is not at rest. key is a SHA-256 of what is limited.';
comment on column rate_limits.tat is 'When the limit is at rest again (the theoretical arrival time of the generic cell rate algorithm).';

create table revocations (
    id    uuid primary key,
    until timestamptz not null
);
comment on table revocations is 'Sessions and users whose access tokens are refused although they have not expired. Every server process keeps them in memory.';

create function notify_revocation() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        perform pg_notify('bough_revocations', old.id || ' 0');
    else
        perform pg_notify('bough_revocations', new.id || ' ' || ceil(extract(epoch from new.until))::bigint);
    end if;
    return null;
end $$;
create trigger revocations_changed after insert or update or delete on revocations
    for each row execute function notify_revocation();

create table signing_key_secrets (
    kid          text primary key references signing_keys (kid) on delete cascade,
    private_jwk  bytea not null,
    encrypted    boolean not null,
    activates_at timestamptz not null
);
comment on table signing_key_secrets is 'Private keys that access tokens are signed with.';
comment on column signing_key_secrets.private_jwk is 'A JWK (RFC 7517), encrypted with auth.encryption_key where that is set (AES-256-GCM, nonce first, kid as additional data).';
comment on column signing_key_secrets.activates_at is 'Tokens are signed with it from then on; it is published before, so that verifiers know it by then.';

---- create above / drop below ----

drop table signing_key_secrets, revocations, rate_limits, mail_tokens, refresh_tokens, sessions;
drop function notify_revocation();
drop table users;
drop function notify_user_keys();
drop type mail_purpose, sign_in_method, user_role;
