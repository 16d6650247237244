-- for: operator
-- The first statement of each transaction of a leader. Raises WB004 unless this term leads now. It locks the row of the leadership in share
-- mode: the next leader waits until the transaction has ended, so a former leader writes nothing after a new term has begun. The server
-- ends a session that stays idle in the transaction until the lease has expired, so a frozen leader does not block its successor.

create or replace function wakeboard.require_leadership(source wakeboard.source_name, term wakeboard.leader_term)
returns void language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  left_ms integer;
begin
  select ceil(extract(epoch from held.expires_at - statement_timestamp()) * 1000) into left_ms from leadership as held
    where held.source = require_leadership.source and held.term = require_leadership.term and held.expires_at > statement_timestamp()
      for share;
  if not found then
    raise exception 'term % of % does not lead any more', require_leadership.term, require_leadership.source using errcode = 'WB004';
  end if;
  perform set_config('idle_in_transaction_session_timeout', left_ms::text, true);
end
$$;
