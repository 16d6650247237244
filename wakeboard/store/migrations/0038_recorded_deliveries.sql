-- A delivery is what was recorded for its run. The successor of the function takes the run's id and reads no payload; `migrate` writes it.
drop function if exists alert_delivery(bigint, text, text);
