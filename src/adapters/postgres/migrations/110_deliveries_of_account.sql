-- The deliveries of an account with few of them are found without a look at everybody else's.
create index deliveries_of_account on work.deliveries (account_id, id);
