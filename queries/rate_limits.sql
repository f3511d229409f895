-- name: TakeRate :one
-- Takes one from a limit of burst attempts that refills one each interval; allowed says whether there was one. The wait
-- is how long until there is one.
with taken as (
    insert into rate_limits as r (key, tat)
    values (@key, clock_timestamp() + make_interval(secs => @interval_seconds))
    on conflict (key) do update
    set tat = greatest(r.tat, clock_timestamp()) + make_interval(secs => @interval_seconds)
    where r.tat + make_interval(secs => @interval_seconds) <= clock_timestamp() + make_interval(secs => @burst_seconds)
    returning tat
)
select exists (select from taken)::boolean as allowed,
    coalesce(extract(epoch from (select l.tat from rate_limits l where l.key = @key) + make_interval(secs => @interval_seconds)
        - make_interval(secs => @burst_seconds) - clock_timestamp()), 0)::double precision as wait_seconds;

-- name: ResetRate :exec
delete from rate_limits where key = @key;

-- name: SweepRates :exec
delete from rate_limits where tat < now();
