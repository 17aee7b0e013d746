import { Option, Schema } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import { useState } from "react"
import {
  ApprovalEventType,
  approvalEventTypes,
  defaultEventTypes
} from "../../../domain/approvals/ApprovalEvent.ts"
import type { EndpointHealth } from "../../../api/console/Deliveries.ts"
import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { Link, navigate } from "../../app/router.tsx"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useKeptDialog } from "../../state/keptWork.ts"
import { useCan } from "../../state/session.ts"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { Button } from "../../ui/Button.tsx"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { FirstRecord } from "../../ui/FirstRecord.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { FormDialog } from "../../ui/FormDialog.tsx"
import { useOpenedByAddress } from "../../ui/useOpenedByAddress.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { SecretDialog } from "../../ui/SecretDialog.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { UrlField } from "../../ui/UrlField.tsx"
import { useAction } from "../../ui/useAction.ts"
import { useFormDraft } from "../../ui/useFormDraft.ts"
import { DescriptionField, toDescription } from "./DescriptionField.tsx"
import { EndpointName } from "./EndpointName.tsx"
import { endpointHealthAtom, EndpointFigures, EndpointState, isUnreliable } from "./EndpointState.tsx"
import { EventsField } from "./EventsField.tsx"

export const endpointsAtom = Atom.make(apiClient.notificationEndpoints.list())

/** The webhook endpoints of the organization, and whether email notifications are enabled. */
export default function Endpoints() {
  const can = useCan()
  useRefreshing(endpointsAtom)
  const healths = Option.getOrUndefined(AsyncResult.value(useAtomValue(endpointHealthAtom)))
  useRefreshing(endpointHealthAtom)
  const creation = useKeptDialog(NEW_ENDPOINT)
  useOpenedByAddress("endpoint", () => {
    if (can("org_config.write")) creation.open()
  })
  const [created, setCreated] = useState<{ readonly secret: string; readonly id: string }>()
  return (
    <>
      <PageHeader
        title="Notifications"
        aside={
          <>
            <ExportButton path="/notification-endpoints" />
            {can("org_config.write") ? (
              <Button kind="primary" onClick={creation.open}>
                New endpoint
              </Button>
            ) : null}
          </>
        }
      >
        Webhook endpoints that receive approval events. Deliveries are signed, retried, and can be replayed.
      </PageHeader>
      <AsyncContent atom={endpointsAtom}>
        {({ email_notifier, endpoints }) => (
          <div className="stack">
            {endpoints.length === 0 ? (
              <div className="card">
                <FirstRecord
                  of={({ firstEndpoint }, origin) => firstEndpoint(origin)}
                  look={() => refresh(endpointsAtom)}
                />
              </div>
            ) : (
              <ul className="cards">
                {byTrouble(endpoints, healths).map((endpoint) => (
                  <EndpointCard key={endpoint.id} endpoint={endpoint} health={healths?.get(endpoint.id)} />
                ))}
              </ul>
            )}
            <p className="quiet small">
              {email_notifier
                ? "Email notifications are enabled: reviewers whose API key has an email address receive them."
                : "Email notifications are disabled. They need COUNTERSIGN_SMTP_URL and a reviewer's API key with an email address."}
            </p>
          </div>
        )}
      </AsyncContent>
      {creation.isOpen ? (
        <NewEndpoint
          onClose={creation.close}
          onCreated={(secret, id) => {
            creation.close()
            setCreated({ secret, id })
            refresh(endpointsAtom)
          }}
        />
      ) : null}
      <SecretDialog
        secret={created?.secret}
        title="Signing secret"
        description="The receiver verifies the signature of each delivery with it."
        onClose={() => {
          if (created !== undefined) navigate(`/endpoints/${created.id}`)
          setCreated(undefined)
        }}
      />
    </>
  )
}

/** Failing endpoints first, those with the most waiting deliveries before others, and disabled ones last. */
const byTrouble = (
  endpoints: ReadonlyArray<NotificationEndpoint>,
  healths: ReadonlyMap<string, EndpointHealth> | undefined
): ReadonlyArray<NotificationEndpoint> => {
  const rankOf = (endpoint: NotificationEndpoint): number => {
    if (!endpoint.active) return 4
    if (endpoint.consecutive_failures > 0) return 0
    if (isUnreliable(healths?.get(endpoint.id))) return 1
    return endpoint.awaits_verification ? 2 : 3
  }
  return endpoints.toSorted((a, b) => rankOf(a) - rankOf(b) || b.pending_deliveries - a.pending_deliveries)
}

const EndpointCard = ({
  endpoint,
  health
}: {
  readonly endpoint: NotificationEndpoint
  readonly health: EndpointHealth | undefined
}) => (
  <li className="card padded endpoint-card">
    <div>
      <h2>
        <Link to={`/endpoints/${endpoint.id}`}>
          <EndpointName endpoint={endpoint} />
        </Link>
      </h2>
      <p className="quiet small">
        {endpoint.events.length === approvalEventTypes.length
          ? "All events"
          : endpoint.events.map((event) => event.replace("approval.", "")).join(", ")}{" "}
        · created <RelativeTime time={endpoint.created_at} /> by{" "}
        <UntrustedText text={endpoint.created_by.name} />
      </p>
      <EndpointFigures health={health} />
    </div>
    <div className="endpoint-state">
      <EndpointState endpoint={endpoint} health={health} />
      {endpoint.pending_deliveries === 0 ? null : (
        <span className="quiet small">{endpoint.pending_deliveries.toLocaleString("en")} pending</span>
      )}
    </div>
  </li>
)

/** The kept input of the dialog: without the URL, which can contain a secret. */
const NEW_ENDPOINT = "new endpoint"

const Changes = Schema.Struct({
  description: Schema.optionalKey(Schema.String),
  events: Schema.optionalKey(Schema.Array(ApprovalEventType))
})

const NewEndpoint = ({
  onClose,
  onCreated
}: {
  readonly onClose: () => void
  readonly onCreated: (secret: string, id: string) => void
}) => {
  const [url, setUrl] = useState("https://")
  const draft = useFormDraft<Required<typeof Changes.Type>>(NEW_ENDPOINT, Changes, {
    description: "",
    events: defaultEventTypes
  })
  const { description, events } = draft.value
  const create = useAction(() => {
    const [first, ...rest] = events
    return apiClient.notificationEndpoints.create({
      payload: {
        url: url.trim(),
        description: toDescription(description),
        ...(first === undefined ? {} : { events: [first, ...rest] })
      }
    })
  })
  const submit = async () => {
    if (events.length === 0) return
    const created = await create.run()
    if (created !== undefined) onCreated(created.secret, created.endpoint.id)
  }
  return (
    <FormDialog
      title="New endpoint"
      draft={draft}
      submit="Create endpoint"
      pending={create.pending}
      disabled={events.length === 0}
      onSubmit={submit}
      onClose={onClose}
    >
      <FailureNotice failure={create.failure} fields={["url", "description"]} />
      <UrlField
        hint="A public HTTPS URL. It is masked after saving."
        error={fieldError(create.failure, "url")}
        value={url}
        onChange={setUrl}
      />
      <DescriptionField
        error={fieldError(create.failure, "description")}
        value={description}
        onChange={(description) => draft.set({ description })}
      />
      <EventsField events={events} onChange={(events) => draft.set({ events })} />
    </FormDialog>
  )
}
