"""Every request that RocketMQ's tools for operators send in ordinary use is handled."""

from __future__ import annotations

from reput_client.remoting import RequestCode, ResponseCode

DASHBOARD = {
    # apache/rocketmq-dashboard 2.1.0: what its uses of MQAdminExt send, but for users and their
    # permissions (3001 to 3010), of which this broker has none.
    "names": {
        "GET_ROUTEINFO_BY_TOPIC",
        "GET_BROKER_CLUSTER_INFO",
        "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
        "GET_TOPICS_BY_CLUSTER",
        "DELETE_TOPIC_IN_NAMESRV",
        "GET_KV_CONFIG",
        "PUT_KV_CONFIG",
    },
    "broker": {
        "CONSUME_MESSAGE_DIRECTLY",
        "DELETE_SUBSCRIPTIONGROUP",
        "DELETE_TOPIC_IN_BROKER",
        "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
        "GET_ALL_TOPIC_CONFIG",
        "GET_BROKER_CONFIG",
        "GET_BROKER_RUNTIME_INFO",
        "GET_CONSUMER_CONNECTION_LIST",
        "GET_CONSUMER_RUNNING_INFO",
        "GET_CONSUME_STATS",
        "GET_MAX_OFFSET",
        "GET_MIN_OFFSET",
        "GET_PRODUCER_CONNECTION_LIST",
        "GET_SUBSCRIPTIONGROUP_CONFIG",
        "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
        "GET_TOPIC_CONFIG",
        "GET_TOPIC_STATS_INFO",
        "HEART_BEAT",
        "INVOKE_BROKER_TO_RESET_OFFSET",
        "PULL_MESSAGE",
        "QUERY_CONSUMER_OFFSET",
        "QUERY_MESSAGE",
        "QUERY_TOPIC_CONSUME_BY_WHO",
        "SEARCH_OFFSET_BY_TIMESTAMP",
        "SEND_MESSAGE_V2",
        "UNREGISTER_CLIENT",
        "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
        "UPDATE_AND_CREATE_TOPIC",
        "UPDATE_BROKER_CONFIG",
        "UPDATE_CONSUMER_OFFSET",
        "VIEW_BROKER_STATS_DATA",
        "VIEW_MESSAGE_BY_ID",
    },
}
"""By port."""


def test_each_request_of_the_dashboard_is_known(served):
    unknown = {
        name
        for peer, names in ((served.names(), "names"), (served.peer(), "broker"))
        for name in DASHBOARD[names]
        if peer.ask(RequestCode[name]).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    }

    assert unknown == set()


def test_what_no_broker_of_ours_has_is_refused_with_a_word(served):
    answer = served.peer().ask(3005)  # list the users

    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == " request type 3005 not supported"
