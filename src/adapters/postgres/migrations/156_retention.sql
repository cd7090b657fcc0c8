-- Positions of the embedded log whose events left it by retention. `log.remove` writes it.
create table log.removed (
  positions int8range not null
);
