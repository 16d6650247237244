-- What another role could put into `public`, a schema of the search path: operators, functions, casts and types that fit our
-- statements as well as those of Postgres, or better. Each function raises; only its owner may execute it, so that a statement
-- which resolves to one fails even where there are no rows.

create type public.planted as (word text);

create function pg_temp.plant(name text, arguments text[], result text) returns void language plpgsql as $$
begin
  execute format($f$create function public.%I(%s) returns %s language plpgsql as
                    'begin raise exception ''a planted object was called''; end'$f$,
                 name, array_to_string(arguments, ', '), result);
  execute format('revoke all on function public.%I(%s) from public', name, array_to_string(arguments, ', '));
exception when others then null;       -- some signatures are not to be had
end $$;

create function pg_temp.plant_operator(name text, lefts text, rights text) returns void language plpgsql as $$
begin
  perform pg_temp.plant('planted_operator', array[lefts, rights], 'boolean');
  execute format('create operator public.%s (leftarg = %s, rightarg = %s, function = public.planted_operator)',
                 name, lefts, rights);
exception when others then null;
end $$;

-- Operators for each enum and each domain of a column (no statement has a value of an argument's type), beside each type that it is compared with, and for all that Postgres has itself.
do $$
declare
  ours text[] := array(select format('wakeboard.%I', typname) from pg_type
                        where typnamespace = 'wakeboard'::regnamespace
                          and (typtype = 'e' or typtype = 'd' and exists (select from pg_attribute where atttypid = pg_type.oid))) || array['public.planted'];
  plain text[] := '{text,varchar,name,smallint,integer,bigint,jsonb,boolean,text[]}';
  names text[] := '{=,<>,<,>,<=,>=,+,-,||,~}';
begin
  perform pg_temp.plant_operator(name, a, b)
     from unnest(names) as name, unnest(ours) as a, unnest(plain || ours) as b;
  perform pg_temp.plant_operator(name, b, a) from unnest(names) as name, unnest(ours) as a, unnest(plain) as b;
  perform pg_temp.plant_operator(oprname, format_type(oprleft, null), format_type(oprright, null))
     from pg_operator
    where oprnamespace = 'pg_catalog'::regnamespace and oprleft <> 0
      and oprname = any (names operator(pg_catalog.||) '{->,->>,~~,<@,@>}'::text[]);
end $$;

-- Functions with the names of those that our statements call, for our types and with the signatures of Postgres.
do $$
declare
  ours text[] := array(select format('wakeboard.%I', typname) from pg_type
                        where typnamespace = 'wakeboard'::regnamespace
                          and (typtype = 'e' or typtype = 'd' and exists (select from pg_attribute where atttypid = pg_type.oid)));
  names text[] := string_to_array(current_setting('planted.names'), ',');
begin
  perform pg_temp.plant(name, array[t], 'text') from unnest(names) as name, unnest(ours || array['text', 'bigint']) as t;
  perform pg_temp.plant(proname::text, array(select format_type(t, null) from unnest(proargtypes) as t),
                        format_type(prorettype, null))
     from pg_proc
    where pronamespace = 'pg_catalog'::regnamespace and proname = any (names) and prokind in ('f', 'a');
end $$;

-- Implicit casts from our enums to a type for which there are operators.
do $$
declare
  ours text;
begin
  for ours in select format('wakeboard.%I', typname) from pg_type
               where typnamespace = 'wakeboard'::regnamespace and typtype = 'e' loop
    perform pg_temp.plant('planted_cast', array[ours], 'public.planted');
    execute format('create cast (%s as public.planted) with function public.planted_cast(%s) as implicit', ours, ours);
  end loop;
end $$;

-- Types with the names of those in our statements: text in the search path `public, pg_catalog` is not what it was.
do $$
declare
  name text;
begin
  foreach name in array '{text,jsonb,timestamptz,uuid,float8,regclass,interval}'::text[] loop
    execute format('create type public.%I as (planted bigint)', name);
  end loop;
end $$;
