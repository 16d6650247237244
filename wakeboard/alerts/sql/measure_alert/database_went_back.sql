-- - databaseWentBack: times that the database may have gone back in time, which no administrator has acknowledged (server_changes);

return query
with found as (
  select kind || ' at ' || to_char(noticed_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC' as name, noticed_at
    from server_changes where (at_risk or lost) and acknowledged_at is null
   limit a_scan
)
select (select count(*) from found)::double precision, array(select name from found order by noticed_at desc limit 5);
