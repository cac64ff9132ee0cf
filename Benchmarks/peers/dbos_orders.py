"""The order of Snippets/OrderWorkflow.swift as a program with DBOS makes it.

    dbos_orders.py FOLDER   runs one order and prints its receipt

The time limit of an attempt is that of the request itself: DBOS limits asynchronous steps only.
"""
import sys

from dbos import DBOS, SetWorkflowID, SetWorkflowTimeout, SQLAlchemyDatasource
from sqlalchemy import text

FOLDER = sys.argv[1]
DBOS(config={"name": "shop", "system_database_url": f"sqlite:///{FOLDER}/dbos.db", "run_admin_server": False,
             "log_level": "CRITICAL"})
# A transaction of this database writes its checkpoint, too, so its effect is not doubled.
store = SQLAlchemyDatasource.create(f"sqlite:///{FOLDER}/orders.db")


class OrderError(Exception):
    pass


asked = set()


def service(request, key):
    """Stands for programs elsewhere, whose first answer is lost."""
    if key not in asked:
        asked.add(key)
        raise OrderError(f"no answer to {request}")


@DBOS.step(retries_allowed=True, max_attempts=10, interval_seconds=0.1, backoff_rate=4)
def ask(request, key):
    service(request, key)


@store.transaction()
def log(line):
    store.sql_session().execute(text("INSERT INTO log VALUES (:line)"), {"line": line})


@DBOS.workflow()
def reserve(number, supplier):
    ask(f"reserve {number} {supplier}", DBOS.workflow_id)
    return supplier


def answer(request):
    """What a supplier answered within its minute; nothing if it did not."""
    try:
        return request.get_result()
    except Exception:
        return None


@DBOS.workflow()
def order(number, cents):
    try:
        with SetWorkflowTimeout(60):
            requests = [DBOS.start_workflow(reserve, number, supplier) for supplier in ("Ada", "Bob", "Eve")]
        suppliers = [supplier for supplier in map(answer, requests) if supplier]
        if len(suppliers) < 2:
            raise OrderError("too few suppliers")
        ask(f"charge {number}", DBOS.workflow_id)
        if DBOS.recv("payment", timeout_seconds=3 * 24 * 3600) is None:
            raise OrderError("not paid")
    except Exception:
        log(f"order {number} is released: failed")
        raise
    log(f"bill {number} is paid")
    return {"order": number, "suppliers": suppliers}


@store.transaction()
def log_count(due):
    store.sql_session().execute(text("INSERT INTO log SELECT count(*) || ' lines until ' || :due FROM log"), {"due": due})


@DBOS.workflow()
def report(due, context):
    log_count(str(due))


def launch():
    with store.engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS log(text TEXT NOT NULL)"))
    DBOS.launch()
    DBOS.apply_schedules([{"schedule_name": "report", "workflow_fn": report, "schedule": "0 9 * * *",
                           "cron_timezone": "Europe/Zurich"}])


def start(number, cents):
    with SetWorkflowID(f"order-{number}"):
        return DBOS.start_workflow(order, number, cents)


if __name__ == "__main__":
    launch()
    handle = start("17", 1999)
    DBOS.send("order-17", {"cents": 1999}, topic="payment")
    print(f"order 17: {', '.join(handle.get_result()['suppliers'])}")
