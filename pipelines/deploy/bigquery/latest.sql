-- The newest complete revision of every epoch, each row once.
--
-- Streaming inserts may repeat rows (same collection, digest, epoch, revision, attribute and value), and a
-- revision may be on its way while this is read. So: one row per key (should two runs over files have written
-- different rows under one key, the one with more reports), then revisions with as many rows as any of
-- their epoch, then the newest of these.
--
-- Replace DATASET by the dataset that holds the table `estimates`. Rows without estimates (status
-- insufficient_reports) stay; a revision that was withheld has no rows.
CREATE OR REPLACE VIEW `DATASET.estimates_latest` AS
WITH
  -- epoch_start follows from digest and epoch; it is named so that a filter by time can reach the table.
  copies AS (
    SELECT
      *,
      ROW_NUMBER() OVER (
        PARTITION BY collection, digest, epoch, epoch_start, revision, attribute, value
        ORDER BY n DESC, support DESC
      ) AS copy_number
    FROM `DATASET.estimates`
  ),
  sized AS (
    SELECT
      *,
      COUNT(*) OVER (PARTITION BY collection, digest, epoch, epoch_start, revision) AS revision_rows
    FROM copies
    WHERE copy_number = 1
  ),
  compared AS (
    SELECT
      *,
      MAX(revision_rows) OVER (PARTITION BY collection, digest, epoch, epoch_start) AS epoch_rows
    FROM sized
  ),
  ranked AS (
    SELECT
      *,
      DENSE_RANK() OVER (
        PARTITION BY collection, digest, epoch, epoch_start
        ORDER BY revision DESC
      ) AS revision_age
    FROM compared
    WHERE revision_rows = epoch_rows
  )
SELECT
  collection,
  version,
  digest,
  epoch,
  epoch_start,
  epoch_end,
  revision,
  attribute,
  value,
  label,
  n,
  support,
  estimate,
  std_error,
  std_error_floor,
  ci_low,
  ci_high,
  ci_low_all,
  ci_high_all,
  consistent,
  method,
  pane,
  status,
  cumulative,
  cumulative_ci_low,
  cumulative_ci_high
FROM ranked
WHERE revision_age = 1;
