import { Schema } from "effect"
import { Atom } from "effect/reactivity"
import { useState } from "react"
import type { Grant, GrantStatus } from "../../../domain/approvals/Grant.ts"
import { GrantId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { useCan } from "../../state/session.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Badge, type Tone } from "../../ui/Badge.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { InlineSelect } from "../../ui/Select.tsx"
import { Table } from "../../ui/Table.tsx"
import { AbsoluteTime, RelativeTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { describeCondition } from "../rules/ConditionDraft.ts"

/** Which grants the list shows. */
type State = "active" | "ended"

const grantsAtom = Atom.family((state: State) =>
  pagedAtom(
    (cursor: GrantId | undefined) =>
      apiClient.grants.list({ query: { state, ...(cursor === undefined ? {} : { cursor }) } }),
    "grants"
  )
)

const grantAtom = Atom.family((id: GrantId) => Atom.make(apiClient.grants.get({ params: { id } })))

const isGrantId = Schema.is(GrantId)

const columns = ["Allows", "Made by", "Used", "Ends", "Status", { name: "Actions", hidden: true }]

/** The standing grants, active ones first, or one of them. */
export default function Grants({ params }: PageProps) {
  const id = params["id"]
  if (id === undefined) return <GrantList />
  return isGrantId(id) ? <OneGrant id={id} /> : <EmptyState title="Grant not found" />
}

const GrantList = () => {
  const [state, setState] = useState<State>("active")
  const atom = grantsAtom(state)
  return (
    <>
      <PageHeader
        title="Grants"
        aside={
          <InlineSelect
            label="Show"
            value={state}
            onChange={setState}
            options={[
              ["active", "Active grants"],
              ["ended", "Ended grants"]
            ]}
          />
        }
      >
        Approvals in advance: they allow further steps of a session, until their time or count runs out.
      </PageHeader>
      <PagedList key={state} atom={atom}>
        {(grants) =>
          grants.length === 0 ? (
            <EmptyState title={state === "active" ? "No active grants" : "No ended grants"}>
              A reviewer makes one with an approval: “Allow further steps”.
            </EmptyState>
          ) : (
            <Table columns={columns}>
              {grants.map((grant) => (
                <GrantRow key={grant.grant_id} grant={grant} onRevoked={() => refresh(atom)} />
              ))}
            </Table>
          )
        }
      </PagedList>
    </>
  )
}

const OneGrant = ({ id }: { readonly id: GrantId }) => {
  const atom = grantAtom(id)
  return (
    <div className="stack">
      <p>
        <Link to="/grants">← All grants</Link>
      </p>
      <PageHeader title="Grant" />
      <AsyncContent atom={atom}>
        {(grant) => (
          <Table columns={columns}>
            <GrantRow grant={grant} onRevoked={() => refresh(atom)} />
          </Table>
        )}
      </AsyncContent>
    </div>
  )
}

const statuses: Record<GrantStatus, readonly [tone: Tone, label: string]> = {
  active: ["good", "Active"],
  used_up: ["quiet", "Used up"],
  expired: ["quiet", "Expired"],
  revoked: ["bad", "Revoked"],
  session_closed: ["quiet", "Session closed"],
  key_unusable: ["bad", "Key cannot decide"]
}

const GrantRow = ({ grant, onRevoked }: { readonly grant: Grant; readonly onRevoked: () => void }) => {
  const can = useCan()
  const [tone, label] = statuses[grant.status]
  return (
    <tr>
      <td>
        <div className="about">
          <strong>
            <UntrustedText text={grant.tool} />
          </strong>{" "}
          <span className="quiet">
            <UntrustedText text={grant.action_class} />
          </span>
          <AllowedArguments grant={grant} />
          {grant.reason === "" ? null : (
            <div className="quiet">
              <UntrustedText text={grant.reason} />
            </div>
          )}
          <div className="small">
            {can("sessions.read") ? (
              <>
                <Link to={`/sessions/${grant.session_id}`}>Session</Link> ·{" "}
              </>
            ) : null}
            <Link to={`/approvals/${grant.approval_id}`}>Approval</Link>
          </div>
        </div>
      </td>
      <td data-label="Made by">
        <UntrustedText text={grant.created_by.name} />
        <div className="quiet small">
          <RelativeTime time={grant.created_at} />
        </div>
      </td>
      <td data-label="Used">
        {grant.max_uses === null ? grant.uses : `${grant.uses} of ${grant.max_uses}`}
        {grant.last_used_at === null ? null : (
          <div className="quiet small">
            <RelativeTime time={grant.last_used_at} />
          </div>
        )}
      </td>
      <td data-label="Ends">
        <AbsoluteTime time={grant.ended_at ?? grant.expires_at} />
      </td>
      <td data-label="Status">
        <Badge tone={tone}>{label}</Badge>
        {grant.revoked_by === null ? null : (
          <div className="quiet small">
            by <UntrustedText text={grant.revoked_by.name} />
          </div>
        )}
      </td>
      <td>
        {grant.status === "active" && can("approvals.decide") ? (
          <ConfirmButton
            label="Revoke"
            title="Revoke this grant?"
            act={() => apiClient.grants.revoke({ params: { id: grant.grant_id } })}
            onDone={onRevoked}
          >
            <p>From the next step on, a person is asked again. Steps that it has allowed stay allowed.</p>
          </ConfirmButton>
        ) : null}
      </td>
    </tr>
  )
}

const AllowedArguments = ({ grant }: { readonly grant: Grant }) => {
  switch (grant.scope) {
    case "arguments":
      return <div>The arguments of the approved step</div>
    case "tool":
      return <div>Any arguments</div>
    case "condition":
      return (
        <ul className="conditions">
          {grant.when.map((condition) => {
            const text = describeCondition(condition)
            return (
              <li key={text}>
                <UntrustedText text={text} />
              </li>
            )
          })}
        </ul>
      )
  }
}
