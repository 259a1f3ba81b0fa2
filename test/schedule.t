#!/bin/sh
exec test/t-schedule
