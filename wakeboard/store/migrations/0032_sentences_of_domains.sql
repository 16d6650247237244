-- A plain INSERT or UPDATE of a schedule is refused by these types before its trigger sees it. So they say the sentences of `schedule`.

alter domain run_priority drop constraint priority_is_1_to_5_and_5_goes_first;
alter domain run_priority add constraint priority_is_1_to_5_and_5_goes_first check (
  value between 1 and 5 or refuse_value('priority', value::text)) not valid;
alter domain attempt_limit drop constraint max_attempts_is_1_to_1000;
alter domain attempt_limit add constraint max_attempts_is_1_to_1000 check (
  value is null or value between 1 and 1000 or refuse_argument('max_attempts', value::text, 'a whole number from 1 to 1000')) not valid;
alter domain duration_s drop constraint a_duration_is_1_second_to_31_days;
alter domain duration_s add constraint a_duration_is_1_second_to_31_days check (
  value is null or value between 1 and 2678400
  or refuse_argument('timeout_s, backoff_base_s or backoff_cap_s', value::text, 'a number of seconds from 1 to 2678400 (31 days)'))
  not valid;
