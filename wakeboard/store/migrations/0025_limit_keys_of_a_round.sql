-- More than 200 limit keys are read in several calls, so the last one must know what the others have found.

alter type fetch_state add attribute limited_wait boolean;   -- since after_key was '', a key with due runs had no free slot
