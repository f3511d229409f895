create type branch_status as enum ('creating', 'ready', 'resetting', 'deleting', 'error');
create type branch_type as enum ('preview', 'persistent');
create type data_clone_mode as enum ('schema_only', 'full_clone', 'seed_data');
create type access_level as enum ('read', 'write', 'admin');
create type branch_action as enum (
    'created', 'ready', 'failed', 'reset', 'reset_failed', 'updated', 'deleted', 'expired',
    'access_granted', 'access_revoked', 'cloned', 'seeded');
create type activity_status as enum ('success', 'failure');

create table branches (
    id                  uuid primary key,
    name                text not null,
    slug                text not null,
    database_name       text not null,
    status              branch_status not null,
    type                branch_type not null,
    data_clone_mode     data_clone_mode not null,
    parent_id           uuid references branches (id),
    is_main             boolean not null default false,
    created_by          text not null,
    created_at          timestamptz not null default now(),
    updated_at          timestamptz not null default now(),
    expires_at          timestamptz,
    reset_at            timestamptz,
    phase               text,
    error_message       text,
    generation          integer not null default 1,
    operation_by        text not null default '',
    lease_until         timestamptz not null default now() + interval '30 seconds',
    repohost_repo       text,
    repohost_pr_number  integer,
    repohost_pr_url     text,
    deleted_at          timestamptz,
    constraint branches_main_check check (not is_main or (status = 'ready' and deleted_at is null and parent_id is null))
);
create unique index branches_name_key on branches (name) where deleted_at is null and status <> 'deleting';
create unique index branches_slug_key on branches (slug) where deleted_at is null and status <> 'deleting';
create unique index branches_database_name_key on branches (database_name) where deleted_at is null;
create unique index branches_main_key on branches (is_main) where is_main;
create index branches_parent_id_idx on branches (parent_id) where deleted_at is null;
create index branches_expires_at_idx on branches (expires_at) where deleted_at is null;
create index branches_created_at_idx on branches (created_at desc, id desc) where deleted_at is null;

comment on table branches is 'The main database and its branches. A removed branch keeps its row, so that its activity stays readable.';
comment on column branches.parent_id is 'Null when the parent is main, and for main itself.';
comment on column branches.phase is 'What the operation under way is doing; null when there is none.';
comment on column branches.generation is 'Counts the databases that had this name: 1 at creation, one more with each reset. The marker in the comment of the database carries it, which tells after a crash whether a reset had swapped.';
comment on column branches.operation_by is 'Who asked for the operation under way, for the activity entry at its end.';
comment on column branches.lease_until is 'Until then a worker, or a job in the queue, is trusted to go on with the operation under way; afterwards it is taken up anew.';
comment on column branches.deleted_at is 'When the database was gone.';

create table branch_activity (
    id          uuid primary key,
    branch_id   uuid not null references branches (id),
    action      branch_action not null,
    user_id     text not null,
    details     jsonb not null default '{}',
    status      activity_status not null default 'success',
    duration_ms bigint,
    created_at  timestamptz not null default clock_timestamp()
);
create index branch_activity_branch_id_idx on branch_activity (branch_id, created_at desc, id desc);
comment on column branch_activity.user_id is 'The user or service key that asked for it; empty when nobody did.';

create table branch_access (
    branch_id  uuid not null references branches (id) on delete cascade,
    user_id    uuid not null,
    level      access_level not null,
    granted_by text not null,
    created_at timestamptz not null default now(),
    primary key (branch_id, user_id)
);
create index branch_access_user_id_idx on branch_access (user_id);
comment on table branch_access is 'Access given to users beyond the creator, administrators and service keys.';

create table idempotency_keys (
    principal    text not null,
    key          text not null,
    request_hash bytea not null,
    branch_id    uuid not null references branches (id) on delete cascade,
    created_at   timestamptz not null default now(),
    primary key (principal, key)
);
create index idempotency_keys_created_at_idx on idempotency_keys (created_at);
comment on table idempotency_keys is 'Creations with an Idempotency-Key header, kept for 24 hours.';

---- create above / drop below ----

drop table idempotency_keys, branch_access, branch_activity, branches;
drop type activity_status, branch_action, access_level, data_clone_mode, branch_type, branch_status;
