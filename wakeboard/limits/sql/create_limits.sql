-- internal (called by claim_limited and claim_quarantined)
-- Inserts the missing rows of these limit keys, with limit 1. If another open transaction is inserting the same key, the key is left out
-- after 50 ms: its runs are not claimed until that transaction ends, and other keys do not wait for it. After four such keys it stops: the
-- order is random, so that a later call inserts the others.

create or replace function wakeboard.create_limits(keys text[])
returns void language plpgsql security definer
set lock_timeout = '50ms'
as $$
declare
  missing text;
  locked integer := 0;
begin
  for missing in
    select key from unnest(keys) as key where not exists (select from job_limits where job_limits.key = key.key) order by random()
  loop
    begin
      insert into job_limits (key) values (missing) on conflict do nothing;
    exception when lock_not_available then
      locked := locked + 1;
      exit when locked = 4;
    end;
  end loop;
end
$$;
