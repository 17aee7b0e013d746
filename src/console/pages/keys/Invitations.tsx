import { Atom } from "effect/reactivity"
import { MAX_PENDING_INVITATIONS } from "../../../domain/identity/Invitation.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useHasRightsOf } from "../../state/session.ts"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { Table } from "../../ui/Table.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { Groups } from "./KeyFields.tsx"

/** The organization's pending invitations, all of them, and whether the service can send any. */
export const invitationsAtom = Atom.make(
  apiClient.invitations.list({ query: { status: "pending", limit: MAX_PENDING_INVITATIONS } })
)

const columns = ["Invited", "Access", "Sent", "Expires", { name: "Actions", hidden: true }]

/** The pending invitations, with a way to revoke each. Nothing if there are none. */
export const Invitations = () => {
  useRefreshing(invitationsAtom)
  const hasRightsOf = useHasRightsOf()
  const result = useAtomValue(invitationsAtom)
  if (result._tag !== "Success" || result.value.invitations.length === 0) return null
  return (
    <section className="stack" aria-labelledby="invitations">
      <h2 id="invitations">Pending invitations</h2>
      <Table columns={columns}>
        {result.value.invitations.map(
          ({ created_at, created_by, email, expires_at, groups, id, name, preset, scopes }) => (
            <tr key={id}>
              <td>
                <strong>
                  <UntrustedText text={name} />
                </strong>
                <div className="quiet small">
                  <UntrustedText text={email} />
                </div>
              </td>
              <td data-label="Access">
                {preset ?? "custom"}
                <Groups names={groups} />
              </td>
              <td data-label="Sent">
                <RelativeTime time={created_at} />
                <div className="quiet small">
                  by <UntrustedText text={created_by.name} />
                </div>
              </td>
              <td data-label="Expires">
                <RelativeTime time={expires_at} />
              </td>
              <td className="actions" aria-label="Actions">
                {!hasRightsOf({ groups, scopes }) ? null : (
                  <ConfirmButton
                    label="Revoke"
                    title="Revoke this invitation?"
                    act={() => apiClient.invitations.revoke({ params: { id } })}
                    onDone={() => {
                      showToast("Invitation revoked")
                      refresh(invitationsAtom)
                    }}
                  >
                    <p>
                      The link that was sent to <UntrustedText text={email} /> then cannot be used.
                    </p>
                  </ConfirmButton>
                )}
              </td>
            </tr>
          )
        )}
      </Table>
    </section>
  )
}
