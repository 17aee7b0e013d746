import { Effect } from "effect"
import { comments } from "./comments.ts"
import { statements } from "./statements.ts"

/**
 * An organization that arrived from one installation and leaves for another one kept the codes of its arrival in the row that the export
 * replaced. Without them, the first installation could not delete its copy.
 */
export default Effect.andThen(
  statements(
    `ALTER TABLE organization_moves ADD COLUMN arrival_release_code text COLLATE "C"`,
    `ALTER TABLE organization_moves ADD COLUMN arrival_activation_code text COLLATE "C"`
  ),
  comments({
    organization_moves: [
      "The last move of an organization from or to this installation. Not moved itself.",
      {
        arrival_release_code:
          "Where it leaves after it had arrived: the release code of that arrival, as its SHA-256, in hex.",
        arrival_activation_code: "Where it leaves after it had arrived: the activation code of that arrival."
      }
    ]
  })
)
