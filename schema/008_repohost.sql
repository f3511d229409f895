create type repohost_provider as enum ('github', 'gitea', 'gitlab');
create type repohost_delivery_status as enum ('accepted', 'done', 'failed', 'ignored');
create type pull_request_state as enum ('open', 'closed', 'merged');

create table repohost_configs (
    id                      uuid primary key,
    repository              text not null,
    provider                repohost_provider,
    webhook_secret          bytea,
    previous_secret         bytea,
    previous_secret_until   timestamptz,
    auto_create_on_pr       boolean not null,
    auto_delete_on_merge    boolean not null,
    auto_delete_on_close    boolean not null,
    close_grace             text not null,
    reset_on_push           boolean not null,
    default_data_clone_mode data_clone_mode not null,
    default_branch_type     branch_type not null,
    base_branches           text[] not null,
    ignore_drafts           boolean not null,
    allow_forks             boolean not null,
    max_branches            integer not null,
    expires_in              text,
    api_url                 text,
    api_token               bytea,
    created_at              timestamptz not null default now(),
    updated_at              timestamptz not null default now(),
    last_delivery_at        timestamptz,
    last_report_error       text
);
create unique index repohost_configs_repository_key on repohost_configs (lower(repository));

comment on table repohost_configs is 'For each repository, what its pull requests do to branches.';
comment on column repohost_configs.provider is 'The only repository host whose deliveries are taken; null takes all that are known.';
comment on column repohost_configs.webhook_secret is 'Encrypted, with the id of the configuration bound to it. Deliveries to a configuration without one are refused.';
comment on column repohost_configs.previous_secret is 'The secret before the last change, which is accepted until previous_secret_until.';
comment on column repohost_configs.base_branches is 'Branches that a pull request must be for, * standing for any characters; empty is all.';
comment on column repohost_configs.expires_in is 'How long a branch lives after its pull request was last pushed to; null is for good.';
comment on column repohost_configs.api_token is 'Encrypted like webhook_secret. With it the state of branches is reported to the repository host.';
comment on column repohost_configs.last_report_error is 'Why the last report did not reach the repository host; null when it did.';

create table repohost_pull_requests (
    id           uuid primary key,
    config_id    uuid not null references repohost_configs (id) on delete cascade,
    number       integer not null,
    provider     repohost_provider not null,
    state        pull_request_state not null,
    url          text not null,
    base_ref     text not null,
    head_sha     text not null,
    fork         boolean not null,
    draft        boolean not null,
    event_at     timestamptz not null,
    closed_at    timestamptz,
    version      bigint not null default 0,
    done_version bigint not null default 0,
    push_version bigint not null default 0,
    push_done    bigint not null default 0,
    grace_until  timestamptz,
    branch_slug  text,
    problem      text,
    lease_until  timestamptz not null default now(),
    report_at    timestamptz,
    reported     text not null default '',
    comment_id   bigint,
    constraint repohost_pull_requests_number_key unique (config_id, number)
);
create index repohost_pull_requests_due_idx on repohost_pull_requests (lease_until) where version > done_version;
create index repohost_pull_requests_report_at_idx on repohost_pull_requests (report_at) where report_at is not null;
create index repohost_pull_requests_problem_idx on repohost_pull_requests (lease_until) where problem is not null;

comment on table repohost_pull_requests is 'The state that each pull request is in by the newest event about it. Jobs bring the branches into line with it; a row without a branch is the memory of one that was closed.';
comment on column repohost_pull_requests.event_at is 'The repository host''s time of the newest event; older ones are not applied.';
comment on column repohost_pull_requests.closed_at is 'When the event that closed it was received, from which the grace counts; null while it is open.';
comment on column repohost_pull_requests.version is 'Counts the events applied. The work for all up to done_version is done.';
comment on column repohost_pull_requests.push_version is 'The version of the newest push that asks for a reset; done when push_done has reached it.';
comment on column repohost_pull_requests.grace_until is 'The expiry that closing gave the branch, by which reopening knows that it may take it back.';
comment on column repohost_pull_requests.branch_slug is 'The branch that was last made or found for it.';
comment on column repohost_pull_requests.problem is 'Why there is no branch although there should be one; null when all is well.';
comment on column repohost_pull_requests.lease_until is 'Until then a job is trusted to do the work that is due; afterwards it is queued anew.';
comment on column repohost_pull_requests.report_at is 'When a report to the repository host is due; null when there is none to make.';
comment on column repohost_pull_requests.reported is 'What the repository host was told last.';

create table repohost_deliveries (
    id              uuid primary key,
    config_id       uuid not null references repohost_configs (id) on delete cascade,
    provider        repohost_provider not null,
    delivery_id     text not null,
    body_hash       bytea not null,
    event           text not null,
    action          text,
    pull_request_id uuid references repohost_pull_requests (id) on delete cascade,
    pr_number       integer,
    version         bigint not null default 0,
    status          repohost_delivery_status not null,
    reason          text,
    received_at     timestamptz not null default clock_timestamp(),
    constraint repohost_deliveries_delivery_id_key unique (config_id, provider, delivery_id),
    constraint repohost_deliveries_body_hash_key unique (config_id, body_hash)
);
create index repohost_deliveries_received_at_idx on repohost_deliveries (received_at desc, id desc);
create index repohost_deliveries_pull_request_id_idx on repohost_deliveries (pull_request_id);

comment on table repohost_deliveries is 'Deliveries whose signature was right, for 30 days and as long as their pull request is open. Bodies are not kept.';
comment on column repohost_deliveries.delivery_id is 'The repository host''s id of it. It is not signed, so it proves nothing: ids of one configuration say nothing about another''s, and a known payload is a duplicate whatever its id.';
comment on column repohost_deliveries.body_hash is 'SHA-256 of the payload.';

create index branches_repohost_idx on branches (lower(repohost_repo), repohost_pr_number)
    where deleted_at is null and repohost_repo is not null;

---- create above / drop below ----

drop index branches_repohost_idx;
drop table repohost_deliveries, repohost_pull_requests, repohost_configs;
drop type pull_request_state, repohost_delivery_status, repohost_provider;
