-- In the order of claims, which take the first steps of each endpoint: the steps of one partner are
-- passed over as a whole, however many there are.
create index after_steps_due on work.after_steps (endpoint_id, due_at);
drop index work.after_steps_due_at_idx;
