create type webhook_disabled_reason as enum ('manual', 'gone', 'failing');
create type delivery_status as enum ('pending', 'delivered', 'failed', 'cancelled');

create table webhooks (
    id              uuid primary key,
    url             text not null,
    events          text[] not null,
    description     text not null,
    enabled         boolean not null default true,
    disabled_reason webhook_disabled_reason,
    created_by      text not null,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    last_success_at timestamptz,
    failing_since   timestamptz,
    constraint webhooks_disabled_check check (enabled = (disabled_reason is null))
);
create index webhooks_created_at_idx on webhooks (created_at desc, id desc);

comment on table webhooks is 'Endpoints of others that events are sent to.';
comment on column webhooks.events is 'Types of events, or * alone for all.';
comment on column webhooks.disabled_reason is 'manual: an administrator switched it off; gone: the endpoint answered 410; failing: nothing but failures for days. Null while enabled.';
comment on column webhooks.failing_since is 'The first failure after the last success; null when the last try succeeded.';

create table webhook_secrets (
    id         uuid primary key,
    webhook_id uuid not null references webhooks (id) on delete cascade,
    secret     bytea not null,
    created_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz
);
create index webhook_secrets_webhook_id_idx on webhook_secrets (webhook_id, created_at desc);

comment on table webhook_secrets is 'What deliveries are signed with. During a rotation an endpoint has several.';
comment on column webhook_secrets.secret is 'The bytes after whsec_, encrypted as server/auth does for secrets of others; the row''s id is bound to them.';
comment on column webhook_secrets.expires_at is 'Until then a secret that was rotated away signs too; null for the current one.';

create table events (
    id         uuid primary key,
    type       text not null,
    payload    json not null,
    created_at timestamptz not null default clock_timestamp()
);
create index events_created_at_idx on events (created_at);
comment on table events is 'What has happened, written in the transaction in which it happened. payload is the body that is sent.';

create table webhook_deliveries (
    id           uuid primary key,
    webhook_id   uuid not null references webhooks (id) on delete cascade,
    event_id     uuid not null references events (id),
    event_type   text not null,
    status       delivery_status not null default 'pending',
    tries        integer not null default 0,
    attempts     jsonb not null default '[]',
    created_at   timestamptz not null default clock_timestamp(),
    due_at       timestamptz not null default now(),
    lease_until  timestamptz,
    delivered_at timestamptz
);
create index webhook_deliveries_created_at_idx on webhook_deliveries (created_at desc, id desc);
create index webhook_deliveries_webhook_id_idx on webhook_deliveries (webhook_id, created_at desc, id desc);
create index webhook_deliveries_event_id_idx on webhook_deliveries (event_id);
create index webhook_deliveries_due_at_idx on webhook_deliveries (due_at) where status = 'pending';

comment on table webhook_deliveries is 'One event on its way to one endpoint.';
comment on column webhook_deliveries.status is 'failed: given up; cancelled: the endpoint was disabled before it was delivered.';
comment on column webhook_deliveries.tries is 'How many tries of the schedule were made; a redelivery begins anew.';
comment on column webhook_deliveries.attempts is 'What came of the latest tries, oldest first.';
comment on column webhook_deliveries.due_at is 'When the next try is due, for a pending delivery.';
comment on column webhook_deliveries.lease_until is 'A try is under way, and is given up for lost at this time; null when there is none.';

alter table branches add column expiry_announced timestamptz;
comment on column branches.expiry_announced is 'The expires_at that branch.expiring was sent for; another expiry is announced again.';

---- create above / drop below ----

alter table branches drop column expiry_announced;
drop table webhook_deliveries, events, webhook_secrets, webhooks;
drop type delivery_status, webhook_disabled_reason;
