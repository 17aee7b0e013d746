import { Effect } from "effect"
import { comments } from "./comments.ts"
import { statements } from "./statements.ts"

/**
 * After the commit of a move, an abort in the other installation deleted its copy, and only the files could bring it back. Now the installation that
 * the organization has left writes the same file again, with the same codes and for the same transfer key.
 */
export default Effect.andThen(
  statements(
    `ALTER TABLE organization_moves ADD COLUMN transfer_key text COLLATE "C"`,
    `ALTER TABLE organization_moves ADD COLUMN export_receipt text COLLATE "C"`,
    `ALTER TABLE organization_moves ADD COLUMN export_activation text COLLATE "C"`,
    `ALTER TABLE organization_copies ADD COLUMN transfer_key text COLLATE "C"`
  ),
  comments({
    organization_moves: [
      "The last move of an organization from or to this installation. Not moved itself.",
      {
        transfer_key:
          "Where it leaves: the key that the export is encrypted for; null: the export cannot be written again.",
        export_receipt: "Where it leaves: the receipt in the file, to write it again.",
        export_activation: "Where it leaves: the activation code in the file, to write it again."
      }
    ],
    organization_move_replicas: [
      "Running replicas, and what they still work on for an organization that is frozen.",
      { in_flight: "Requests and deliveries in progress." }
    ],
    organization_copies: [
      "The last copy of an organization that another installation may have, until its move ends. Not moved itself.",
      { transfer_key: "The key that the copy is encrypted for; null: it was not recorded." }
    ]
  })
)
