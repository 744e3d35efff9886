-- The generation being built, if there is one, and the live one.
SELECT coalesce(b.generation, 0) AS generation, g.generation AS live, r.time_zone, r.copied_through::text,
       r.started_by::text
  FROM stats_generations g
  LEFT JOIN stats_generations b ON b.state = 'building'
  LEFT JOIN stats_rebuilds r ON r.generation = b.generation
 WHERE g.state = 'live'
