-- Functions of the first release that nothing calls any more.

drop function if exists parents_of_each(jsonb, integer);
