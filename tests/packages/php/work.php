<?php

require 'vendor/autoload.php';

$redis = new Redis();
$redis->connect('127.0.0.1', parse_url(getenv('REDIS_URL'), PHP_URL_PORT));
LockSo\Locks::on($redis)->lock('report')->run(function () {
    echo "working\n";
}, wait: 10.0);
