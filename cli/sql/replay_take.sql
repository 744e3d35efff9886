-- Whoever runs it from now on: a run that was thought dead finds its generation gone, and stops.
UPDATE consumer_offsets SET generation = generation + 1, updated_at = now() WHERE consumer_group = 'replay:' || $1::bigint
