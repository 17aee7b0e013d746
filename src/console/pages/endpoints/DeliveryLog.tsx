import { Effect, Option } from "effect"
import { AsyncResult } from "effect/reactivity"
import { type ReactNode, useState } from "react"
import {
  type DeliveryLogPage,
  type LoggedDelivery,
  MAX_REPLAYED_DELIVERIES
} from "../../../api/console/Deliveries.ts"
import type { DeliveryId, EndpointId } from "../../../domain/Ids.ts"
import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { Link } from "../../app/router.tsx"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { useCan } from "../../state/session.ts"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { Badge, type Tone } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { ExportButton } from "../../ui/ExportButton.tsx"
import { FirstRecord } from "../../ui/FirstRecord.tsx"
import { isAtStart, PagedList } from "../../ui/PagedList.tsx"
import { RowCheckbox } from "../../ui/selection/RowCheckbox.tsx"
import { SelectionBar } from "../../ui/selection/SelectionBar.tsx"
import { useReviewList } from "../../ui/selection/useReviewList.ts"
import { useSelection } from "../../ui/selection/useSelection.ts"
import { AbsoluteTime, RelativeTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useQueryState } from "../../ui/useQueryState.ts"
import {
  deliveryPagesAtom,
  deliveryPath,
  deliveryQuery,
  exportFilter,
  isFiltered,
  loadDeliveries,
  newestDeliveriesAtom
} from "./deliveryFilter.ts"
import { DeliveryFilters } from "./DeliveryFilters.tsx"
import { EndpointName } from "./EndpointName.tsx"
import { ReplaySheet } from "./ReplaySheet.tsx"

/** The pages that are searched for failed deliveries to select. */
const MAX_SEARCHED_PAGES = 40

/**
 * The deliveries of all endpoints, or of `only` one, newest first, with filters in the address. Changes of the newest page are shown as
 * they happen; new deliveries appear by themselves only when nothing below them would move away.
 */
export const DeliveryLog = ({
  aside,
  endpoints,
  onChange,
  only
}: {
  readonly endpoints: ReadonlyArray<NotificationEndpoint>
  readonly only?: EndpointId
  readonly aside?: ReactNode
  /** Called after a replay. */
  readonly onChange?: () => void
}) => {
  const [query, setQuery] = useQueryState(deliveryQuery)
  const search = deliveryQuery.write("", only === undefined ? query : { ...query, endpoint: only })
  const atom = deliveryPagesAtom(search)
  const reload = () => {
    refresh(atom)
    refresh(newestDeliveriesAtom(search))
    onChange?.()
  }
  return (
    <section className="card" aria-labelledby="deliveries">
      <div className="card-head">
        <h2 id="deliveries" className={only === undefined ? "visually-hidden" : undefined}>
          {only === undefined ? "All deliveries" : "Deliveries"}
        </h2>
        <div className="row-actions">
          {aside}
          <ExportButton path="/deliveries" filter={exportFilter(search)} />
        </div>
      </div>
      <div className="delivery-filters">
        <DeliveryFilters query={query} setQuery={setQuery} {...(only === undefined ? { endpoints } : {})} />
      </div>
      <PagedList atom={atom}>
        {(pages) => (
          <Pages
            key={search}
            search={search}
            filtered={isFiltered(query)}
            pages={pages}
            endpoints={endpoints}
            showsEndpoint={only === undefined}
            onReload={reload}
          />
        )}
      </PagedList>
    </section>
  )
}

const Pages = ({
  endpoints,
  filtered,
  onReload,
  pages,
  search,
  showsEndpoint
}: {
  readonly search: string
  readonly filtered: boolean
  readonly pages: ReadonlyArray<DeliveryLogPage>
  readonly endpoints: ReadonlyArray<NotificationEndpoint>
  readonly showsEndpoint: boolean
  readonly onReload: () => void
}) => {
  const can = useCan()
  /** The endpoint that a test event is suggested for. */
  const firstEndpoint = endpoints.find(({ active }) => active)
  const newestAtom = newestDeliveriesAtom(search)
  useRefreshing(newestAtom)
  const newest = Option.getOrUndefined(AsyncResult.value(useAtomValue(newestAtom)))
  const loaded = pages.flatMap((page) => page.deliveries)
  const fresh = new Map(newest?.deliveries.map((one) => [one.id, one]))
  const listed = loaded.map((one) => fresh.get(one.id) ?? one)
  const first = loaded[0]?.id
  const added = (newest?.deliveries ?? []).filter(({ id }) => first === undefined || id > first)
  const active = new Set(endpoints.filter((one) => one.active).map(({ id }) => id))
  const canReplay = (delivery: LoggedDelivery) =>
    delivery.status === "failed" && active.has(delivery.endpoint_id) && can("org_config.write")
  const [others, setOthers] = useState<ReadonlyMap<DeliveryId, LoggedDelivery>>(new Map())
  const selection = useSelection({
    list: [...added, ...listed].filter(canReplay).map(({ id }) => id),
    max: MAX_REPLAYED_DELIVERIES,
    noun: "deliveries"
  })
  /** Whether other new deliveries may be between the newest page and those that are shown. */
  const hasGap =
    first !== undefined &&
    newest !== undefined &&
    newest.next_cursor !== null &&
    added.length === newest.deliveries.length
  // Nothing moves while its user has scrolled down or selected something.
  const follows = selection.ids.size === 0 && !hasGap && isAtStart()
  const shown = follows ? [...added, ...listed] : listed
  const byId = new Map([...others, ...shown.map((one): [DeliveryId, LoggedDelivery] => [one.id, one])])

  /** Selects every failed delivery of the filter, up to the bound. */
  const selectFailed = async () => {
    const found: Array<LoggedDelivery> = []
    const failed = deliveryQuery.write(search, { status: "failed" })
    let cursor: DeliveryId | undefined
    for (let page = 0; page < MAX_SEARCHED_PAGES && found.length < MAX_REPLAYED_DELIVERIES; page++) {
      const answer = await Effect.runPromise(Effect.option(loadDeliveries(failed, cursor)))
      if (Option.isNone(answer)) break
      found.push(...answer.value.deliveries.filter(canReplay))
      if (answer.value.next_cursor === null) break
      cursor = answer.value.next_cursor
    }
    setOthers(new Map(found.map((one) => [one.id, one])))
    selection.selectAll(found.map(({ id }) => id))
  }
  const [isSelecting, setSelecting] = useState(false)

  const list = useReviewList({
    list: shown.map(({ id }) => id),
    open: undefined,
    focusedId: () => shown.find(({ id }) => id === focusedDelivery())?.id,
    onOpen: (id) => document.querySelector<HTMLElement>(`[data-delivery="${id}"] a`)?.focus(),
    selection,
    isSelectable: (id) => {
      const delivery = byId.get(id)
      return delivery !== undefined && canReplay(delivery)
    },
    keys: []
  })
  const last = pages.at(-1)
  const hasSelectable = shown.some(canReplay)
  return (
    <>
      <div className="delivery-actions">
        <SelectionBar
          selection={selection}
          actions={
            <Button small kind="primary" onClick={list.openSheet}>
              Replay
            </Button>
          }
        />
        {follows || added.length === 0 ? null : (
          <Button small onClick={onReload}>
            Show{" "}
            {hasGap
              ? "new deliveries"
              : added.length === 1
                ? "1 new delivery"
                : `${added.length} new deliveries`}
          </Button>
        )}
        {hasSelectable && selection.ids.size === 0 ? (
          <Button
            small
            pending={isSelecting}
            onClick={() => {
              setSelecting(true)
              void selectFailed().finally(() => setSelecting(false))
            }}
          >
            Select all failed
          </Button>
        ) : null}
      </div>
      {shown.length === 0 && !filtered && firstEndpoint !== undefined ? (
        <FirstRecord
          of={({ firstDelivery }, origin) => firstDelivery(origin, firstEndpoint.id)}
          look={() => refresh(newestAtom)}
        />
      ) : shown.length === 0 ? (
        <EmptyState title={filtered ? "No deliveries match" : "No deliveries yet"}>
          {last !== undefined && last.searched_to !== null ? (
            <SearchedTo page={last} />
          ) : filtered ? (
            "Change the filters to see others."
          ) : (
            "Events that are sent to an endpoint appear here. Add an endpoint first."
          )}
        </EmptyState>
      ) : (
        <ul className="rows">
          {shown.map((delivery) => (
            <li
              key={delivery.id}
              className={selection.ids.has(delivery.id) ? "row delivery selected" : "row delivery"}
              data-delivery={delivery.id}
            >
              {hasSelectable ? (
                <span className="delivery-select">
                  {canReplay(delivery) ? (
                    <RowCheckbox
                      id={delivery.id}
                      label={`${delivery.type} ${delivery.approval_id ?? ""}`}
                      selection={selection}
                    />
                  ) : null}
                </span>
              ) : null}
              <DeliveryRow
                delivery={delivery}
                endpoint={showsEndpoint ? endpoints.find(({ id }) => id === delivery.endpoint_id) : undefined}
              />
            </li>
          ))}
        </ul>
      )}
      {shown.length > 0 && last !== undefined && last.searched_to !== null ? (
        <p className="quiet small delivery-searched">
          <SearchedTo page={last} />
        </p>
      ) : null}
      {list.isSheetOpen ? (
        <ReplaySheet
          deliveries={[...byId.values()]}
          selection={selection}
          onReplayed={onReload}
          onClose={list.closeSheet}
        />
      ) : null}
    </>
  )
}

/** The delivery whose row has the focus. */
const focusedDelivery = (): string | null | undefined =>
  document.activeElement?.closest("[data-delivery]")?.getAttribute("data-delivery")

const SearchedTo = ({ page }: { readonly page: DeliveryLogPage }) => (
  <>
    Searched back to <AbsoluteTime time={page.searched_to} />. Load more to search older deliveries.
  </>
)

/** The tone and the words of a status. */
export const deliveryStatuses: Record<LoggedDelivery["status"], readonly [Tone, string]> = {
  pending: ["wait", "Pending"],
  delivered: ["good", "Delivered"],
  failed: ["bad", "Failed"]
}

const DeliveryRow = ({
  delivery,
  endpoint
}: {
  readonly delivery: LoggedDelivery
  readonly endpoint: NotificationEndpoint | undefined
}) => {
  const [tone, status] = deliveryStatuses[delivery.status]
  return (
    <div className="row-line">
      <Badge tone={tone}>{status}</Badge>
      <span className="row-text">
        <span>
          <Link to={deliveryPath(delivery)}>
            <UntrustedText text={delivery.type} />
          </Link>{" "}
          {delivery.tool === null ? (
            <span className="id quiet">{delivery.approval_id}</span>
          ) : (
            <UntrustedText text={delivery.tool} />
          )}
        </span>
        {endpoint === undefined ? null : (
          <span className="quiet small">
            <EndpointName endpoint={endpoint} />
          </span>
        )}
        {delivery.last_error === null ? null : (
          <span className="row-error">
            <UntrustedText text={delivery.last_error} />
          </span>
        )}
      </span>
      <span className="quiet small row-meta">
        {delivery.attempts === 1 ? "1 attempt" : `${delivery.attempts} attempts`}
        {delivery.replays === 0
          ? ""
          : delivery.replays === 1
            ? ", 1 replay"
            : `, ${delivery.replays} replays`}
        {delivery.status_code === null ? "" : `, ${delivery.status_code}`}
        {delivery.next_attempt_at === null ? null : (
          <>
            , next attempt <RelativeTime time={delivery.next_attempt_at} />
          </>
        )}{" "}
        · <RelativeTime time={delivery.created_at} />
      </span>
    </div>
  )
}
