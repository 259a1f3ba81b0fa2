#!/bin/sh
exec test/t-modelrun
