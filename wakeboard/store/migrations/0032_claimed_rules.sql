-- Its successor has one more parameter.
drop function if exists claim_alert_rules(jsonb);
