create type oauth_client_kind as enum ('registered', 'document');
create type oauth_token_kind as enum ('access', 'refresh');

create table oauth_clients (
    id               text primary key,
    kind             oauth_client_kind not null,
    name             text not null,
    redirect_uris    text[] not null,
    scope            text not null default '',
    uri              text not null default '',
    logo_uri         text not null default '',
    software_id      text not null default '',
    software_version text not null default '',
    created_at       timestamptz not null default now(),
    last_used_at     timestamptz,
    expires_at       timestamptz,
    constraint oauth_clients_document_check check ((kind = 'document') = (expires_at is not null))
);
create index oauth_clients_created_at_idx on oauth_clients (created_at desc, id desc);

comment on table oauth_clients is 'Applications that ask users for access. All are public: none has a secret.';
comment on column oauth_clients.id is 'mcp_ and random characters for a registered client (RFC 7591), the URL of its metadata for one that is known by a document.';
comment on column oauth_clients.scope is 'What a request of the client that names no scope asks for; empty for the usual.';
comment on column oauth_clients.last_used_at is 'When a user last approved the client or it last got tokens, to a few minutes; null before the first time.';
comment on column oauth_clients.expires_at is 'When the document is to be read again; null for registered clients.';

create table oauth_requests (
    id             uuid primary key,
    browser        bytea not null,
    client_id      text not null references oauth_clients (id) on delete cascade,
    redirect_uri   text not null,
    redirect_named boolean not null,
    scopes         text[] not null,
    state          bytea,
    resource       text not null,
    code_challenge text not null,
    sign_in_again  boolean not null,
    created_at     timestamptz not null default now(),
    expires_at     timestamptz not null,
    used_at        timestamptz
);
create index oauth_requests_client_id_idx on oauth_requests (client_id);
create index oauth_requests_browser_idx on oauth_requests (browser);
create index oauth_requests_expires_at_idx on oauth_requests (expires_at);

comment on table oauth_requests is 'Authorization requests that wait for the user. What she agrees to is read from here, not from the form she sends.';
comment on column oauth_requests.browser is 'SHA-256 of the secret of the browser that made the request.';
comment on column oauth_requests.redirect_named is 'Whether the request named the redirect URI; the token request must do so then.';
comment on column oauth_requests.state is 'The client''s state, byte for byte; null where it sent none.';
comment on column oauth_requests.sign_in_again is 'The client asks that the user signs in for this request (prompt=login).';

create table oauth_browsers (
    hash       bytea primary key,
    session_id uuid not null references sessions (id) on delete cascade,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null
);
create index oauth_browsers_session_id_idx on oauth_browsers (session_id);
create index oauth_browsers_expires_at_idx on oauth_browsers (expires_at);

comment on table oauth_browsers is 'Browsers in which a user is signed in to approve clients, by the SHA-256 of their secret. They are signed in as long as the session goes on.';

create table oauth_grants (
    id             uuid primary key,
    client_id      text not null references oauth_clients (id) on delete cascade,
    user_id        uuid not null references users (id) on delete cascade,
    scopes         text[] not null,
    resource       text not null,
    created_at     timestamptz not null default now(),
    expires_at     timestamptz not null,
    last_used_at   timestamptz,
    revoked_at     timestamptz,
    revoked_reason text
);
create index oauth_grants_user_id_idx on oauth_grants (user_id, created_at desc);
create index oauth_grants_client_id_idx on oauth_grants (client_id);
create index oauth_grants_expires_at_idx on oauth_grants (expires_at);
create index oauth_grants_revoked_at_idx on oauth_grants (revoked_at) where revoked_at is not null;

comment on table oauth_grants is 'What users allowed clients: the family of all codes and tokens that came of one approval. Nothing of it works when it is revoked or has expired.';
comment on column oauth_grants.expires_at is 'That of the code at first, then that of the newest refresh token.';
comment on column oauth_grants.last_used_at is 'When tokens were last issued or used, to a few minutes; null until the code is redeemed.';

create table oauth_codes (
    hash           bytea primary key,
    grant_id       uuid not null references oauth_grants (id) on delete cascade,
    redirect_uri   text not null,
    redirect_named boolean not null,
    code_challenge text not null,
    expires_at     timestamptz not null,
    used_at        timestamptz
);
create index oauth_codes_grant_id_idx on oauth_codes (grant_id);

comment on table oauth_codes is 'Authorization codes by their SHA-256. They stay as long as the grant, so that a code that is used again is known.';

create table oauth_tokens (
    hash       bytea primary key,
    kind       oauth_token_kind not null,
    grant_id   uuid not null references oauth_grants (id) on delete cascade,
    generation integer not null,
    parent     bytea,
    scopes     text[] not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    rotated_at timestamptz,
    revoked_at timestamptz,
    constraint oauth_tokens_rotated_check check (rotated_at is null or kind = 'refresh')
);
create index oauth_tokens_grant_id_idx on oauth_tokens (grant_id);
create index oauth_tokens_parent_idx on oauth_tokens (parent) where parent is not null;
create index oauth_tokens_expires_at_idx on oauth_tokens (expires_at);

comment on table oauth_tokens is 'Access and refresh tokens by their SHA-256.';
comment on column oauth_tokens.generation is 'How many refreshes led to the token.';
comment on column oauth_tokens.scopes is 'What an access token may do; empty for refresh tokens, which have those of the grant.';
comment on column oauth_tokens.parent is 'The refresh token that this refresh token was given for; null for the first of a grant, and for access tokens.';
comment on column oauth_tokens.rotated_at is 'When the refresh token was used. It stays known, so that its reuse is seen.';

create table audit_log (
    id          bigint generated always as identity primary key,
    at          timestamptz not null default clock_timestamp(),
    area        text not null,
    action      text not null,
    outcome     text not null,
    user_id     uuid,
    key_id      uuid,
    client_id   text,
    client_name text,
    branch      text,
    duration_ms double precision,
    ip          text,
    request_id  text,
    details     jsonb not null default '{}'
);
create index audit_log_at_idx on audit_log (at desc, id desc);
create index audit_log_user_id_idx on audit_log (user_id, at desc) where user_id is not null;
create index audit_log_client_id_idx on audit_log (client_id, at desc) where client_id is not null;

comment on table audit_log is 'What clients were allowed and what they did, for 90 days. Rows outlive the users and clients that they tell of.';
comment on column audit_log.area is 'oauth or mcp.';
comment on column audit_log.outcome is 'ok, denied or error.';

-- Every server process keeps a short cache of access tokens; these tell it what to forget: a grant, or one token.
create function notify_oauth_grant() returns trigger language plpgsql as $$
begin
    if tg_op = 'UPDATE' or old.revoked_at is null and old.expires_at > now() then
        perform pg_notify('bough_oauth', old.id::text);
    end if;
    return null;
end $$;
create trigger oauth_grants_revoked after update of revoked_at on oauth_grants
    for each row when (new.revoked_at is distinct from old.revoked_at) execute function notify_oauth_grant();
create trigger oauth_grants_deleted after delete on oauth_grants
    for each row execute function notify_oauth_grant();

create function notify_oauth_token() returns trigger language plpgsql as $$
begin
    perform pg_notify('bough_oauth', encode(old.hash, 'hex'));
    return null;
end $$;
create trigger oauth_tokens_revoked after update of revoked_at on oauth_tokens
    for each row when (new.revoked_at is distinct from old.revoked_at and old.kind = 'access') execute function notify_oauth_token();

-- A token tells who its user is, and she may do what she may do at present. Of one who is deleted the grants tell.
create function notify_user_grants() returns trigger language plpgsql as $$
begin
    perform pg_notify('bough_oauth', g.id::text)
    from oauth_grants g
    where g.user_id = old.id and g.revoked_at is null and g.expires_at > now();
    return null;
end $$;
create trigger users_grants_changed
    after update of email, email_verified_at, role, disabled_at, user_metadata, app_metadata on users
    for each row execute function notify_user_grants();

---- create above / drop below ----

drop trigger users_grants_changed on users;
drop table audit_log, oauth_tokens, oauth_codes, oauth_grants, oauth_browsers, oauth_requests, oauth_clients;
drop function notify_oauth_grant(), notify_oauth_token(), notify_user_grants();
drop type oauth_client_kind, oauth_token_kind;
