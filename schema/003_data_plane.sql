-- Every server process keeps a short cache of where requests go and who may go there; this tells it what to forget:
-- the branch's id and, when its database may be another, the database's name.
create function notify_branch() returns trigger language plpgsql as $$
begin
    if tg_table_name = 'branch_access' then
        perform pg_notify('bough_branches', coalesce(new.branch_id, old.branch_id)::text);
    else
        perform pg_notify('bough_branches', new.id::text || ' ' || new.database_name);
    end if;
    return null;
end $$;
create trigger branches_inserted after insert on branches
    for each row execute function notify_branch();
create trigger branches_changed after update on branches
    for each row
    when ((old.slug, old.status, old.database_name, old.generation, old.created_by, old.deleted_at)
        is distinct from (new.slug, new.status, new.database_name, new.generation, new.created_by, new.deleted_at))
    execute function notify_branch();
create trigger branch_access_changed after insert or update or delete on branch_access
    for each row execute function notify_branch();

---- create above / drop below ----

drop trigger branch_access_changed on branch_access;
drop trigger branches_changed on branches;
drop trigger branches_inserted on branches;
drop function notify_branch();
