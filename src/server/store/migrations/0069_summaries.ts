import { Effect } from "effect"
import { comments } from "./comments.ts"
import { statements } from "./statements.ts"

/** What an approval says on one line. Columns without a default: no row is written. Replicas of an older version leave them null. */
export default Effect.andThen(
  statements(
    `ALTER TABLE approvals
      ADD COLUMN rule_summary text,
      ADD COLUMN agent_summary text,
      ADD COLUMN telling_arguments text`
  ),
  comments({
    approvals: [
      "Requests for a person to decide on a governed step.",
      {
        rule_summary:
          "What the step does: the template of the rule with the arguments; null: the rule has no template.",
        agent_summary: "What the agent claims that the step does; null: it claims nothing.",
        telling_arguments:
          "Most telling arguments on one line, for lists; null: there are none, or the row is older."
      }
    ]
  })
)
