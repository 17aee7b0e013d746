import type { DeletionId } from "../../../domain/Ids.ts"
import type { Deletion } from "../../../domain/deletion/Deletion.ts"
import { useState } from "react"
import { apiClient } from "../../state/apiClient.ts"
import { refresh } from "../../state/atoms.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { Badge } from "../../ui/Badge.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { RadioField } from "../../ui/RadioField.tsx"
import { Table } from "../../ui/Table.tsx"
import { TextField } from "../../ui/TextField.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

const deletionsAtom = pagedAtom(
  (cursor: DeletionId | undefined) =>
    apiClient.deletions.list({ query: cursor === undefined ? {} : { cursor } }),
  "deletions"
)

/** Erases the data of a data subject, and lists erasures and other deletions. */
export const Erasures = () => (
  <section className="stack" aria-labelledby="erasure">
    <h2 id="erasure">Erasure</h2>
    <NewErasure />
    <PagedList atom={deletionsAtom} itemId={({ id }: Deletion) => id}>
      {(deletions) =>
        deletions.length === 0 ? (
          <EmptyState title="No deletions yet" />
        ) : (
          <Table columns={["Deleted", "Requested by", "Requested", "Records", "Status"]}>
            {deletions.map((deletion) => (
              <Row key={deletion.id} deletion={deletion} />
            ))}
          </Table>
        )
      }
    </PagedList>
  </section>
)

type Subject = "metadata" | "end_user"

const NewErasure = () => {
  const [subject, setSubject] = useState<Subject>("metadata")
  const [name, setName] = useState("")
  const [value, setValue] = useState("")
  const isComplete = value.trim() !== "" && (subject === "end_user" || name.trim() !== "")
  return (
    <div className="card padded stack">
      <RadioField
        legend="The data of"
        options={[
          ["metadata", "runs and sessions with this member of the metadata"],
          ["end_user", "an end user who gave feedback"]
        ]}
        value={subject}
        onChange={setSubject}
      />
      <div className="field-pairs">
        {subject === "metadata" ? (
          <TextField
            label="Member"
            hint="Such as customer_id."
            maxLength={200}
            spellCheck={false}
            value={name}
            onChange={setName}
          />
        ) : null}
        <TextField
          label={subject === "metadata" ? "Value" : "End user’s ID"}
          hint={
            subject === "metadata"
              ? "Compared as a whole, as a text. For numbers and truth values, use the API."
              : "Your ID of the end user, not the pseudonym."
          }
          maxLength={subject === "metadata" ? 1_000 : 256}
          spellCheck={false}
          value={value}
          onChange={setValue}
        />
      </div>
      <div className="row-actions">
        {isComplete ? (
          <ConfirmButton
            small={false}
            label="Erase…"
            confirmLabel="Erase"
            title="Erase this data?"
            act={() =>
              apiClient.deletions.erase({
                payload:
                  subject === "metadata"
                    ? { metadata_key: name.trim(), metadata_value: value }
                    : { end_user_id: value.trim() }
              })
            }
            onDone={() => {
              setValue("")
              refresh(deletionsAtom)
              showToast("Erasure requested")
            }}
          >
            <p>
              {subject === "metadata"
                ? "All runs and sessions with this member are deleted, with the feedback on the runs. Examples that corrections of them became are erased from every dataset version."
                : "The feedback of this end user is deleted, and the examples that its corrections became. The runs stay."}{" "}
              It cannot be undone.
            </p>
          </ConfirmButton>
        ) : (
          <span className="quiet small">Name whose data to erase.</span>
        )}
      </div>
    </div>
  )
}

const Row = ({ deletion }: { readonly deletion: Deletion }) => {
  const { created_at, created_by, deleted, end_user, metadata_key, status, target_id } = deletion
  const { examples, feedback, runs, sessions } = deleted
  return (
    <tr>
      <td>
        <UntrustedText
          text={
            metadata_key === null
              ? end_user === null
                ? `${deletion.kind} ${target_id ?? ""}`
                : `end user ${end_user}`
              : `data by ${metadata_key}`
          }
        />
      </td>
      <td data-label="Requested by">
        <UntrustedText text={created_by.name} />
      </td>
      <td data-label="Requested">
        <RelativeTime time={created_at} />
      </td>
      <td data-label="Records">
        {runs} runs, {sessions} sessions, {feedback} feedback, {examples} examples
      </td>
      <td data-label="Status">
        {status === "completed" ? <Badge tone="good">Completed</Badge> : <Badge tone="wait">Running</Badge>}
      </td>
    </tr>
  )
}
