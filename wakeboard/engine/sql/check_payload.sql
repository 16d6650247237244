-- for: client, scheduler, worker, operator, viewer, scaler
-- Returns true if a payload is valid: an object or an array, at most 64 KiB as text, at most 32 levels deep, numbers within ±2^53. Raises
-- 22023 otherwise. Null for null. The domain run_payload checks small flat payloads itself and calls this function for the others.
-- Example:
--   select wakeboard.check_payload('{"report_id": 42}');

create or replace function wakeboard.check_payload(payload jsonb)
returns boolean language plpgsql strict
as $$
declare
  problem text := case
    when jsonb_typeof(payload) not in ('object', 'array') then
      format('payload is %s, neither an object nor a list; write for example {"report_id": 42}', shortened(payload::text))
    when jsonb_path_exists(payload, 'strict $.**{1 to last} ? (@ > 9007199254740992 || @ < -9007199254740992)') then
      'payload holds a number beyond 2^53, where other languages lose digits; write numbers like this as strings, '
      'for example "9007199254740993"'
    when octet_length(payload::text) > 65536 then
      format('payload is %s bytes, more than 64 KiB (65536); pass ids, not blobs, for example {"report_id": 42}',
             to_char(octet_length(payload::text), 'FM999,999,999'))
    when jsonb_path_exists(payload, 'strict $.**{32 to last} ? (@.type() == "object" || @.type() == "array")') then
      'payload is nested deeper than 32 levels; pass ids, for example {"report_id": 42}' end;
begin
  if problem is not null then
    raise exception using errcode = '22023', message = problem;
  end if;
  return true;
end
$$;
