alter table installation add column mcp_state_key bytea not null
    default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
comment on column installation.mcp_state_key is 'Signs what MCP clients carry between a question to the person and the answer, for all server processes.';

alter type branch_action add value 'migrated';

---- create above / drop below ----

-- A value of an enumeration cannot be taken out again; nothing reads it any more.
delete from branch_activity where action = 'migrated';
alter table installation drop column mcp_state_key;
