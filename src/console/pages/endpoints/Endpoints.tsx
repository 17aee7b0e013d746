import { Atom } from "effect/reactivity"
import { type FormEvent, useState } from "react"
import { type ApprovalEventType, approvalEventTypes } from "../../../domain/approvals/ApprovalEvent.ts"
import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { Link, navigate } from "../../app/router.tsx"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { Dialog } from "../../ui/Dialog.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { SecretDialog } from "../../ui/SecretDialog.tsx"
import { RelativeTime, Countdown } from "../../ui/Time.tsx"
import { UrlField } from "../../ui/UrlField.tsx"
import { useAction } from "../../ui/useAction.ts"
import { EventsField } from "./EventsField.tsx"

export const endpointsAtom = Atom.make(apiClient.notification_endpoints.list())

/** Where approval events are sent. */
export default function Endpoints() {
  const can = useCan()
  const result = useAtomValue(endpointsAtom)
  const [making, setMaking] = useState(false)
  const [made, setMade] = useState<{ readonly secret: string; readonly id: string }>()
  return (
    <>
      <PageHeader
        title="Notifications"
        aside={
          can("org_config.write") ? (
            <Button kind="primary" onClick={() => setMaking(true)}>
              New endpoint
            </Button>
          ) : null
        }
      >
        HTTPS receivers of approval events. Each event is signed, tried again, and can be replayed.
      </PageHeader>
      <AsyncContent result={result} atom={endpointsAtom}>
        {({ email_notifier, endpoints }) => (
          <div className="stack">
            {endpoints.length === 0 ? (
              <div className="card">
                <EmptyState title="No endpoint yet">
                  An endpoint is told when a step waits for a person, nears its deadline, and is decided.
                </EmptyState>
              </div>
            ) : (
              <ul className="cards">
                {endpoints.map((endpoint) => (
                  <EndpointCard key={endpoint.id} endpoint={endpoint} />
                ))}
              </ul>
            )}
            <p className="quiet small">
              {email_notifier
                ? "Reviewers whose key has an address get mail, too."
                : "Nobody gets mail: that asks for COUNTERSIGN_SMTP_URL, and a reviewer's key with an address."}
            </p>
          </div>
        )}
      </AsyncContent>
      {making ? (
        <NewEndpoint
          onClose={() => setMaking(false)}
          onMade={(secret, id) => {
            setMaking(false)
            setMade({ secret, id })
            refresh(endpointsAtom)
          }}
        />
      ) : null}
      <SecretDialog
        secret={made?.secret}
        title="The signing secret"
        what="The receiver verifies each delivery with it."
        onClose={() => {
          if (made !== undefined) navigate(`/endpoints/${made.id}`)
          setMade(undefined)
        }}
      />
    </>
  )
}

const EndpointCard = ({ endpoint }: { readonly endpoint: NotificationEndpoint }) => (
  <li className="card padded endpoint-card">
    <div>
      <h2>
        <Link to={`/endpoints/${endpoint.id}`}>
          <UntrustedText text={endpoint.url_hint} />
        </Link>
      </h2>
      <p className="quiet small">
        {endpoint.events.length === approvalEventTypes.length
          ? "all events"
          : endpoint.events.map((event) => event.replace("approval.", "")).join(", ")}{" "}
        · made <RelativeTime time={endpoint.created_at} /> by{" "}
        <UntrustedText text={endpoint.created_by.name} />
      </p>
    </div>
    <div className="endpoint-state">
      <EndpointState endpoint={endpoint} />
      {endpoint.pending_deliveries === 0 ? null : (
        <span className="quiet small">{endpoint.pending_deliveries.toLocaleString("en")} waiting</span>
      )}
    </div>
  </li>
)

/** Whether an endpoint is sent to, and if not, why. */
export const EndpointState = ({ endpoint }: { readonly endpoint: NotificationEndpoint }) => {
  if (!endpoint.active) return <Badge tone="quiet">off</Badge>
  if (endpoint.cooldown_until !== null) {
    return (
      <Badge tone="wait">
        cooling down, <Countdown until={endpoint.cooldown_until} />
      </Badge>
    )
  }
  return endpoint.consecutive_failures > 0 ? (
    <Badge tone="bad">
      {endpoint.consecutive_failures === 1
        ? "the last attempt failed"
        : `the last ${endpoint.consecutive_failures} attempts failed`}
    </Badge>
  ) : (
    <Badge tone="good">on</Badge>
  )
}

const NewEndpoint = ({
  onClose,
  onMade
}: {
  readonly onClose: () => void
  readonly onMade: (secret: string, id: string) => void
}) => {
  const [url, setUrl] = useState("https://")
  const [events, setEvents] = useState<ReadonlyArray<ApprovalEventType>>(approvalEventTypes)
  const create = useAction(() => {
    const [first, ...rest] = events
    return apiClient.notification_endpoints.create({
      payload: { url: url.trim(), ...(first === undefined ? {} : { events: [first, ...rest] }) }
    })
  })
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    if (events.length === 0) return
    const made = await create.run()
    if (made !== undefined) onMade(made.secret, made.endpoint.id)
  }
  return (
    <Dialog open title="New endpoint" onClose={onClose}>
      <form className="stack" onSubmit={(event) => void submit(event)}>
        <FailureNotice failure={create.failure} />
        <UrlField
          hint="Public https. It is masked once it is saved."
          fault={fieldError(create.failure, "url")}
          value={url}
          onChange={setUrl}
        />
        <EventsField events={events} onChange={setEvents} />
        <div className="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" pending={create.pending} disabled={events.length === 0}>
            Create the endpoint
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
