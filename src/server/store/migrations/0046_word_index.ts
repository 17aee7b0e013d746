import { Effect } from "effect"
import { comments, orgId } from "./comments.ts"
import { statements } from "./statements.ts"

/**
 * Indexes every word of every example, with a posting list per task and word, in place of an index of rare words only. Numbers the inputs
 * of each dataset, and indexes the existing ones: about a minute for a million examples.
 */
export default Effect.andThen(
  statements(
    `ALTER TABLE dataset_examples ADD COLUMN ordinal int`,
    `UPDATE dataset_examples
    SET ordinal = numbered.ordinal
    FROM (
      SELECT org_id, task_id, example_id, dense_rank() OVER (PARTITION BY org_id, task_id ORDER BY first_id) AS ordinal
      FROM (
        SELECT org_id, task_id, example_id, min(example_id) OVER (PARTITION BY org_id, task_id, input_digest) AS first_id
        FROM dataset_examples
      ) AS same
    ) AS numbered
    WHERE dataset_examples.org_id = numbered.org_id
      AND dataset_examples.task_id = numbered.task_id
      AND dataset_examples.example_id = numbered.example_id`,
    `ALTER TABLE dataset_examples ALTER COLUMN ordinal SET NOT NULL`,
    `CREATE INDEX dataset_examples_ordinal ON dataset_examples (org_id, task_id, ordinal, first_version)`,
    `ALTER TABLE datasets ADD COLUMN last_ordinal int NOT NULL DEFAULT 0`,
    `UPDATE datasets
    SET last_ordinal = reached.last_ordinal
    FROM (
      SELECT org_id, task_id, version, max(highest) OVER (PARTITION BY org_id, task_id ORDER BY version) AS last_ordinal
      FROM datasets
        LEFT JOIN (
          SELECT org_id, task_id, first_version AS version, max(ordinal) AS highest
          FROM dataset_examples
          GROUP BY org_id, task_id, first_version
        ) AS added USING (org_id, task_id, version)
    ) AS reached
    WHERE datasets.org_id = reached.org_id
      AND datasets.task_id = reached.task_id
      AND datasets.version = reached.version
      AND reached.last_ordinal IS NOT NULL`,
    `ALTER TABLE datasets ALTER COLUMN last_ordinal DROP DEFAULT`,
    `CREATE TABLE dataset_postings (
      org_id text COLLATE "C" NOT NULL,
      task_id text COLLATE "C" NOT NULL,
      word int NOT NULL,
      first_ordinal int NOT NULL,
      earlier int NOT NULL,
      postings bytea NOT NULL,
      PRIMARY KEY (org_id, task_id, word, first_ordinal)
    )`,
    // Each posting has 32 bits: the ordinal, and the length class of the text. See `PostingList`.
    `INSERT INTO dataset_postings (org_id, task_id, word, first_ordinal, earlier, postings)
    SELECT org_id, task_id, word, min(ordinal), min(number), string_agg(int4send(ordinal * 16 + class), ''::bytea ORDER BY ordinal)
    FROM (
      SELECT
        org_id, task_id, word, ordinal,
        width_bucket(cardinality(tokens), ARRAY[2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17, 25, 33, 65, 129]) AS class,
        row_number() OVER (PARTITION BY org_id, task_id, word ORDER BY ordinal) - 1 AS number
      FROM (
        SELECT DISTINCT ON (org_id, task_id, ordinal) org_id, task_id, ordinal, tokens
        FROM dataset_examples
        ORDER BY org_id, task_id, ordinal
      ) AS inputs
        CROSS JOIN LATERAL unnest(tokens) AS word
    ) AS posting
    GROUP BY org_id, task_id, word, number / 375`,
    `DROP TABLE dataset_words`,
    `ALTER TABLE dataset_examples DROP COLUMN rare_tokens`,
    `COMMENT ON COLUMN dataset_examples.ordinal IS 'Number of the input in the task''s dataset, from 1; an example that replaces another has the same.'`,
    `COMMENT ON COLUMN datasets.last_ordinal IS 'Highest number of an input of this or an earlier version; later inputs have higher ones.'`
  ),
  comments({
    dataset_postings: [
      "Which inputs of a task's dataset contain a word: posting lists, cut into chunks, for the search of the nearest examples.",
      {
        ...orgId,
        task_id: "Task of the dataset.",
        word: "Hash of the word.",
        first_ordinal: "Number of the chunk's first input.",
        earlier: "Postings of the word in earlier chunks.",
        postings:
          "Postings in the order of the inputs, 4 bytes each: number of the input (28 bits), length class of its text (4 bits)."
      }
    ]
  })
)
