import { Atom } from "effect/reactivity"
import { type FormEvent, useState } from "react"
import { type ApprovalEventType, approvalEventTypes } from "../../../domain/approvals/ApprovalEvent.ts"
import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { Link, navigate } from "../../app/router.tsx"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { service } from "../../state/service.ts"
import { useCan } from "../../state/session.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { Dialog } from "../../ui/Dialog.tsx"
import { Empty } from "../../ui/Empty.tsx"
import { faultOf } from "../../ui/failure.ts"
import { Loaded } from "../../ui/Loaded.tsx"
import { PageHead } from "../../ui/PageHead.tsx"
import { Problem } from "../../ui/Problem.tsx"
import { Safe } from "../../ui/Safe.tsx"
import { SecretDialog } from "../../ui/Secret.tsx"
import { Ago, Countdown } from "../../ui/Time.tsx"
import { UrlField } from "../../ui/UrlField.tsx"
import { useAction } from "../../ui/useAction.ts"
import { EventsField } from "./EventsField.tsx"

export const endpointsAtom = Atom.make(service.notification_endpoints.list())

/** Where approval events are sent. */
export default function Endpoints() {
  const can = useCan()
  const result = useAtomValue(endpointsAtom)
  const [making, setMaking] = useState(false)
  const [made, setMade] = useState<{ readonly secret: string; readonly id: string }>()
  return (
    <>
      <PageHead
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
      </PageHead>
      <Loaded result={result} atom={endpointsAtom}>
        {({ email_notifier, endpoints }) => (
          <div className="stack">
            {endpoints.length === 0 ? (
              <div className="card">
                <Empty title="No endpoint yet">
                  An endpoint is told when a step waits for a person, nears its deadline, and is decided.
                </Empty>
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
      </Loaded>
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
          <Safe text={endpoint.url_hint} />
        </Link>
      </h2>
      <p className="quiet small">
        {endpoint.events.length === approvalEventTypes.length
          ? "all events"
          : endpoint.events.map((event) => event.replace("approval.", "")).join(", ")}{" "}
        · made <Ago time={endpoint.created_at} /> by <Safe text={endpoint.created_by.name} />
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
    return service.notification_endpoints.create({
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
        <Problem failure={create.failure} />
        <UrlField
          hint="Public https. It is masked once it is saved."
          fault={faultOf(create.failure, "url")}
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
